#!/usr/bin/env python3
"""Simulation against reality: the same seeded loads by `headway bench` on a real server and by `headway simulate` on a
virtual clock, whose costs come from a trace of one other load on this machine, or from `headway tune`; prints both and
how far they are apart.

usage: bench_sim.py HEADWAY MODEL.gguf [--only smollm,hybrid] [--runs N] [--policies a,b]
                    [--loads agents,documents,mixed] [--costs trace|tune] [--json FILE] [--quick]

The trace is of a mixed load of another seed, 40 seconds under `cadence` and 40 under `chunked`: steps
beside a client and a network thread that need the same cores. `tune` measures on an idle machine.

Each round takes its costs anew and then runs each policy and load, on a server of its own and in `simulate`, with the
round's seed. A figure is the median over the rounds: of the median and 99th percentile of ITL, the median TTFT, the
seconds of the phase, for each role and phase; ITL by the server's clock. Wanted: each within 15%, the median of all
within 10%. The worst gap (a client's) is printed and not judged: one bad moment of the machine decides it. Nothing else
should run meanwhile. Standard library only.
"""

import concurrent.futures, json, os, subprocess, sys, tempfile, urllib.request

import bars
from cache_client import CONFIGS, synth
from cadence_client import Failed, Server, Trace, median, quantile

POLICIES = ("cadence", "gate", "chunked", "prefill-first", "decode-first")
# The flags of bench and simulate. Enough streams beside each prompt that its chunks are clearly more than one gap in a
# hundred: with half as many, two or three of 200 gaps are a whole chunk, and p99 stands on an edge.
LOADS = {
    "agents": ["agents", "--agents", "5", "--requests", "30"],
    "documents": ["documents", "--workers", "3", "--requests", "7"],
    "mixed": ["mixed", "--agents", "3", "--workers", "3", "--requests", "6"],
}
QUICK = {
    "agents": ["agents", "--agents", "2", "--requests", "6", "--scale", "0.2"],
    "documents": ["documents", "--workers", "2", "--requests", "2", "--scale", "0.2"],
    "mixed": ["mixed", "--agents", "1", "--workers", "1", "--requests", "2", "--scale", "0.2"],
}
FIGURES = (("itl_ms", "median"), ("itl_ms", "p99"), ("ttft_ms", "median"))
SAME = ["--ctx", "8192", "--parallel", "16", "--gap-ms", "50"]  # of serve and simulate: nothing is left to `auto`
EACH, ALL = 0.15, 0.10
ARRIVED = 3  # a record's kind


def command(o, *args, timeout=900):
    run = subprocess.run([o.headway, *args], capture_output=True, text=True, timeout=timeout)
    if run.returncode:
        raise Failed(f"headway {' '.join(args[:2])}: {run.stderr.strip()[-400:]}")
    return run


def figures(path):
    """-> {(phase, role, what): value}, and the worst gaps"""
    with open(path) as f:
        report = json.load(f)
    found, worst = {}, {}
    for phase in report["phases"]:
        seconds = phase["end_s"] - phase["start_s"]
        for cell in phase["cells"]:
            where = (phase["name"], cell["role"])
            for what, part in FIGURES:
                if cell[what]["count"] >= 5:
                    found[(*where, f"{what.split('_')[0].upper()} {part}, ms")] = cell[what][part]
            if cell["itl_ms"]["count"]:
                worst[where] = cell["itl_ms"]["max"]
        found[(phase["name"], "all", "seconds")] = seconds
    return found, worst


def take_server_gaps(found, path, trace):
    """Gaps between tokens as the server's clock has them. A client sees texts: a token with half a character in it, or
    a byte of an emoji, brings none, and one answer of such decides a percentile."""
    with open(path) as f:
        report = json.load(f)
    requests = sorted(report["requests"], key=lambda r: r["sent_s"])
    arrivals = [m for m in trace.moments if m[0] == ARRIVED][-len(requests):]  # what came before is bench's own look
    if trace.lost or len(arrivals) < len(requests):
        raise Failed("the server's records are not whole")
    of = {a[2]: (report["phases"][r["phase"]]["name"], r["role"]) for a, r in zip(arrivals, requests)}
    gaps = {}
    for t in trace.tokens:
        if t["duration"] and t["request"] in of:
            gaps.setdefault(of[t["request"]], []).append(t["duration"] / 1e3)
    for where, values in gaps.items():
        for part, p in (("median", 0.5), ("p99", 0.99)):
            if (*where, f"ITL {part}, ms") in found:
                found[(*where, f"ITL {part}, ms")] = quantile(values, p)


def real_run(o, folder, model, policy, load, seed):
    path = os.path.join(folder, "real.json")
    flags = ["--model", model, "--policy", policy, *SAME]
    with Server(o, flags) as server:
        server.idle(30)
        trace = Trace(server)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            run = pool.submit(command, o, "bench", *load, "--url", f"http://127.0.0.1:{server.port}", "--seed",
                              str(seed), "--json", path)
            while not run.done():
                concurrent.futures.wait([run], timeout=2)
                trace.read()
            run.result()
    found, worst = figures(path)
    take_server_gaps(found, path, trace)
    return found, worst


def simulated_run(o, folder, costs, policy, load, seed):
    path = os.path.join(folder, "simulated.json")
    command(o, "simulate", *load, "--hardware", costs, "--policy", policy, "--seed", str(seed), *SAME,
            "--json", path)
    return figures(path)


def traced(o, folder, model, policy):
    """A server's trace while it serves the load that costs are taken from. -> events"""
    load = (QUICK if o.quick else LOADS)["mixed"]
    with Server(o, ["--model", model, "--policy", policy, *SAME]) as server:
        server.idle(30)
        url = f"http://127.0.0.1:{server.port}"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            seconds = 10 if o.quick else 40
            trace = pool.submit(lambda: urllib.request.urlopen(f"{url}/debug/trace?seconds={seconds}").read())
            for seed in range(o.seed + 1000, o.seed + 1100):
                command(o, "bench", *load, "--url", url, "--seed", str(seed))
                if trace.done():
                    break
            return json.loads(trace.result())


def costs_of(o, folder, model):
    """-> path of what the simulated steps cost"""
    if o.costs == "trace":
        path = os.path.join(folder, "trace.json")
        with open(path, "w") as f:
            json.dump(traced(o, folder, model, "cadence") + traced(o, folder, model, "chunked"), f)
        return path
    tuned = os.path.join(folder, "tuned")
    command(o, "tune", "--model", model, "--out", tuned, "--ctx", "8192", "--keep", "off",
            *(["--quick"] if o.quick else []))
    return os.path.join(tuned, "steps.json")


def medians(runs):
    """Of the figures that every run has."""
    return {key: median([r[key] for r in runs]) for key in runs[0] if all(key in r for r in runs)}


def judge(o, report, name, policy, real, simulated):
    """Lists of (figures, worst gaps), one a round."""
    here, there = medians([r[0] for r in real]), medians([r[0] for r in simulated])
    for key in here:
        if key not in there or not here[key]:
            raise Failed(f"{name} {policy}: the simulation has no {key}")
        off = there[key] / here[key] - 1
        o.all.append(abs(off))
        report.check(f"{name} {policy:13} {key[0]}, {key[1]}: {key[2]}", f"{here[key]:.4g} +-15%", f"{there[key]:.4g}",
                     abs(off) <= EACH)
    for where in real[0][1]:
        pairs = ", ".join(f"{a[1].get(where, 0):.0f}/{b[1].get(where, 0):.0f}" for a, b in zip(real, simulated))
        report.note(f"{name} {policy} {where[0]}, {where[1]}: worst gaps {pairs} ms (real/simulated)")


def run_model(o, report, name, model):
    load, real, simulated = QUICK if o.quick else LOADS, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(o.runs):
            costs, seed = costs_of(o, folder, model), o.seed + i
            for policy in o.policies:
                for kind in o.loads:
                    real.setdefault((policy, kind), []).append(real_run(o, folder, model, policy, load[kind], seed))
                    simulated.setdefault((policy, kind), []).append(
                        simulated_run(o, folder, costs, policy, load[kind], seed))
    for policy, kind in real:
        judge(o, report, name, policy, real[policy, kind], simulated[policy, kind])
    if o.all:
        report.check(f"{name}: median of all figures", "<= 0.10", round(median(o.all), 3), median(o.all) <= ALL)
    o.all.clear()


def smollm(o, report):
    run_model(o, report, "smollm", o.model)


def small_hybrid(o, folder):
    """The tiny configuration with steps of a millisecond: where they are shorter than a request's way through the
    server, their costs say nothing. With a head of its own it says text, which is found in the cache when it is sent
    back."""
    with open(os.path.join(CONFIGS, "tiny_qwen3_5.json")) as f:
        config = json.load(f)
    config["text_config"].update(hidden_size=512, num_hidden_layers=12, num_attention_heads=8, head_dim=64,
                                 intermediate_size=1536, max_position_embeddings=16384, linear_num_key_heads=4,
                                 linear_num_value_heads=8, linear_key_head_dim=64, linear_value_head_dim=64)
    config["text_config"]["rope_parameters"]["mrope_section"] = [4, 2, 2]
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = False
    path = os.path.join(folder, "small_hybrid.json")
    with open(path, "w") as f:
        json.dump(config, f)
    return synth(o, path, os.path.join(folder, "small_hybrid.gguf"), "q8_0")


def hybrid(o, report):
    with tempfile.TemporaryDirectory() as folder:
        run_model(o, report, "hybrid", small_hybrid(o, folder))


def main():
    ap = bars.arguments(__doc__, "--json")
    ap.add_argument("--policies", default=",".join(POLICIES))
    ap.add_argument("--costs", choices=("trace", "tune"), default="trace")
    ap.add_argument("--loads", default=",".join(LOADS))
    o = ap.parse_args()
    o.port, o.policies, o.loads, o.all = None, o.policies.split(","), o.loads.split(","), []
    unknown = [x for x in o.policies if x not in POLICIES] + [x for x in o.loads if x not in LOADS]
    if unknown:
        sys.exit(f"{unknown[0]}: no such policy or load")
    if o.quick:
        o.runs = 1
    bars.run_all(o, {"smollm": smollm, "hybrid": hybrid}, table=True)


if __name__ == "__main__":
    main()
