#!/usr/bin/env python3
"""Measures the bars of the prefix cache: warm turns, restores, hit rates, sweeps, crashes, leaks, bits; prints wanted,
measured, met, and a table of all at the end.

usage: bench_cache.py HEADWAY MODEL.gguf [--only NAME[,NAME]] [--json FILE.json] [--llama PYTHON_WITH_XLLAMACPP]
                      [--runs N] [--quick] [--kinds NAME[,NAME]] [--disk FOLDER] [--seed N] [--list]

A server is started for each scenario, with the flags that the bar asks for, and ended after it. --quick shrinks every
scenario: it shows that the tool works and that the answers are right; its times mean nothing. --runs: repetitions (of
`crash`: kills; 200 are the bar). --kinds: of the scenarios that run on several models, only these: sim, sim-hybrid,
hybrid (random weights), dense (MODEL). hybrid35 writes a model of 18.5 GB once and holds it in memory; it runs only
when it is named. Standard library only; uses fio and redis-server where they are installed.
"""

import bars, cache_agents, cache_checks, cache_times

SCENARIOS = {
    "warm": cache_times.scenario_warm,
    "disk": cache_times.scenario_disk,
    "hybrid": cache_times.scenario_hybrid,
    "hybrid35": cache_times.scenario_hybrid35,
    "sweep": cache_times.scenario_sweep,
    "kv": cache_times.scenario_kv,
    "agents": cache_agents.scenario_agents,
    "herd": cache_agents.scenario_herd,
    "documents": cache_agents.scenario_documents,
    "abort": cache_agents.scenario_abort,
    "bits": cache_checks.scenario_bits,
    "crash": cache_checks.scenario_crash,
    "leaks": cache_checks.scenario_leaks,
}


def options():
    ap = bars.arguments(__doc__, "--json")
    ap.add_argument("--kinds", type=lambda text: text.split(","), default=[])
    ap.add_argument("--tokenizer", help="a tokenizer.json for the large models [one of bytes]")
    ap.add_argument("--disk", help="a folder on the disk that is measured [the temporary one]")
    o = ap.parse_args()
    o.port = None
    return o


bars.run_all(options(), SCENARIOS, left_out=("hybrid35",), table=True)
