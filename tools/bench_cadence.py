#!/usr/bin/env python3
"""Measures the bars of Cadence: gaps, rates, costs, fairness, refusals, overload; prints wanted, measured, met.

usage: bench_cadence.py HEADWAY MODEL.gguf [--only NAME[,NAME]] [--out FILE.json] [--llama PYTHON_WITH_XLLAMACPP]
                        [--port N] [--runs N] [--quick] [--overload-seconds N] [--seed N] [--list]

A server is started for each scenario, with the flags that the bar asks for, and ended after it; --port measures one
that runs already (its flags are then yours). --quick shrinks every scenario: it shows that the tool works, and its
figures mean nothing. Each line has the largest hole that a canary saw, a thread that wakes each 1 ms: in a process of
its own (the machine's holes) and in the client's (with its own). Standard library only.
"""

import bars, cadence_bars, cadence_limits
from cadence_client import Failed

SCENARIOS = {
    "gap": cadence_bars.scenario_gap,
    "gap-queue": cadence_bars.scenario_gap_queue,
    "gap-8": cadence_bars.scenario_gap_8,
    "gap-25": cadence_bars.scenario_gap_25,
    "llama": cadence_bars.scenario_llama,
    "gate": cadence_bars.scenario_gate,
    "rate": cadence_bars.scenario_rate,
    "batch": cadence_bars.scenario_batch,
    "cost": cadence_bars.scenario_cost,
    "starvation": cadence_bars.scenario_starvation,
    "model": cadence_limits.scenario_model,
    "fairness": cadence_limits.scenario_fairness,
    "refusal": cadence_limits.scenario_refusal,
    "cancel": cadence_limits.scenario_cancel,
    "overload": cadence_limits.scenario_overload,
}
NEED_OWN_SERVER = {"llama", "cost", "fairness", "refusal", "cancel", "overload"}


def options():
    ap = bars.arguments(__doc__)
    ap.add_argument("--port", type=int, help="of a server that runs already")
    ap.add_argument("--overload-seconds", type=float, default=300)
    o = ap.parse_args()
    quick = o.quick
    o.runs = 1 if quick else o.runs
    o.words = 800 if quick else cadence_bars.DOCUMENT_WORDS
    o.queue, o.cut_s = (6, 10) if quick else (20, 60)
    o.tries = 4 if quick else 20
    if quick:
        o.overload_seconds = min(o.overload_seconds, 10)
    return o


def alone(o, report):
    raise Failed("it needs a server of its own: leave --port out")


def main():
    o = options()
    scenarios = {n: alone if o.port and n in NEED_OWN_SERVER else s for n, s in SCENARIOS.items()}
    bars.run_all(o, scenarios, left_out=() if o.llama else ("llama",))


main()
