#!/usr/bin/env python3
"""Measures the bars of Cadence: gaps, rates, costs, fairness, refusals, overload; prints wanted, measured, met.

usage: bench_cadence.py HEADWAY MODEL.gguf [--only NAME[,NAME]] [--out FILE.json] [--llama PYTHON_WITH_XLLAMACPP]
                        [--port N] [--runs N] [--quick] [--overload-seconds N] [--seed N] [--list]

A server is started for each scenario, with the flags that the bar asks for, and ended after it; --port measures one
that runs already (its flags are then yours). --quick shrinks every scenario: it shows that the tool works, and its
figures mean nothing. Each line has the largest hole that a canary saw, a thread that wakes each 1 ms: in a process of
its own (the machine's holes) and in the client's (with its own). Standard library only.
"""

import argparse, json, os, platform, signal, sys, time, traceback

import cadence_bars, cadence_limits
from cadence_client import Failed, Report

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
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("headway")
    ap.add_argument("model")
    ap.add_argument("--only", help="names, with commas between them")
    ap.add_argument("--out", help="a JSON file; what is in it stays")
    ap.add_argument("--llama", help="a Python that has xllamacpp")
    ap.add_argument("--port", type=int, help="of a server that runs already")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--overload-seconds", type=float, default=300)
    ap.add_argument("--seed", type=int, default=int(time.time()))
    ap.add_argument("--list", action="store_true", help="the scenarios, nothing else")
    o = ap.parse_args()
    quick = o.quick
    o.runs = 1 if quick else o.runs
    o.words = 800 if quick else cadence_bars.DOCUMENT_WORDS
    o.queue, o.cut_s = (6, 10) if quick else (20, 60)
    o.tries = 4 if quick else 20
    if quick:
        o.overload_seconds = min(o.overload_seconds, 10)
    return o


def machine():
    name = platform.machine()
    with open("/proc/cpuinfo") as f:
        name = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), name)
    return {"cpu": name, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def keep(path, entry):
    """Appends to the file's list, by way of a second file: a run that is cut short loses nothing."""
    entries = []
    if os.path.exists(path):
        with open(path) as f:
            entries = json.load(f)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".part", "w") as f:
        json.dump([*entries, entry], f, indent=1)
    os.replace(path + ".part", path)


def run(name, o):
    report, start = Report(name), time.time()
    entry = {"scenario": name, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start)), "quick": o.quick,
             "seed": o.seed, "machine": machine()}
    try:
        if o.port and name in NEED_OWN_SERVER:
            raise Failed("it needs a server of its own: leave --port out")
        SCENARIOS[name](o, report)
    except Failed as e:
        entry["failed"] = str(e)
    except Exception as e:
        traceback.print_exc()
        entry["failed"] = f"{type(e).__name__}: {e}"
    if "failed" in entry:
        print(f"{name:11} FAILED: {entry['failed']}", flush=True)
    entry.update(seconds=round(time.time() - start, 1), checks=report.checks, details=report.details)
    if o.out:
        keep(o.out, entry)
    return entry


def main():
    o = options()
    names = o.only.split(",") if o.only else [n for n in SCENARIOS if n != "llama" or o.llama]
    if o.list:
        print("\n".join(SCENARIOS))
        return
    unknown = [n for n in names if n not in SCENARIOS]
    if unknown:
        sys.exit(f"--only: no scenario {unknown[0]}; there are {', '.join(SCENARIOS)}")
    sys.setswitchinterval(0.0005)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the server is ended on the way out
    entries = [run(name, o) for name in names]
    checks = [c for e in entries for c in e["checks"]]
    failed = [e["scenario"] for e in entries if "failed" in e]
    tail = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"\n{sum(c['met'] for c in checks)} of {len(checks)} bars met{tail}")
    sys.exit(1 if failed else 0)


main()
