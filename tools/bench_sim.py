#!/usr/bin/env python3
"""Simulation against reality: the same seeded loads by `headway bench` on a real server and by `headway simulate` on a
virtual clock, whose costs come from traces of real servers; prints both and how far they are apart.

usage: bench_sim.py HEADWAY MODEL.gguf [--only smollm,hybrid] [--runs N] [--policies a,b]
                    [--loads agents,documents,mixed] [--keep DIR] [--json FILE] [--quick]

Each round runs every load under every policy on a server of its own, with the round's seed, and keeps the server's
trace. Then each run is simulated twice: with the costs of its `own` trace (is what follows from the costs of steps
right: who waits for whom, what is cached, what a gap becomes?), and with those of the `others`, which ran the same load
under the other policies some minutes before and after (what a user does who asks what another policy would change; a
machine that runs faster or slower for a minute shows here).

A figure is the median over the rounds: of the median and 99th percentile of ITL and the seconds of a phase; TTFT is the
median of all rounds' requests, as a run has few. A simulation is run with ten seeds for each round. ITL is by the
server's clock. Wanted: each within 15%, the median of all within 10%. The worst gap (a client's) is printed and not
judged: one bad moment of the machine decides it. Nothing else should run meanwhile. --keep DIR keeps reports and
traces; what a folder has is not run again. Standard library only.
"""

import concurrent.futures, http.client, json, os, socket, subprocess, sys, tempfile, threading, time

import bars
from cache_client import CONFIGS, synth
from cadence_client import Failed, Server, Trace, median

POLICIES = ("cadence", "gate", "chunked", "prefill-first", "decode-first")
# The flags of bench and simulate. Enough streams beside each prompt that its chunks are clearly more than one gap in a
# hundred: with half as many, two or three of 200 gaps are a whole chunk, and p99 stands on an edge. Enough requests for
# a median of TTFT: as agents wait for each other it varies by 19% over (simulated) runs of 30, by 6% over runs of 150.
LOADS = {
    "agents": ["agents", "--agents", "5", "--requests", "60"],
    "documents": ["documents", "--workers", "3", "--requests", "7"],
    "mixed": ["mixed", "--agents", "3", "--workers", "3", "--requests", "6", "--duration", "100"],
}
QUICK = {
    "agents": ["agents", "--agents", "2", "--requests", "6", "--scale", "0.2"],
    "documents": ["documents", "--workers", "2", "--requests", "2", "--scale", "0.2"],
    "mixed": ["mixed", "--agents", "1", "--workers", "1", "--requests", "2", "--scale", "0.2"],
}
BYTES = ["--message-tokens", "11"]  # of ChatML, where a byte is a token: 10, 8 and 13 by role
SIMULATED_SEEDS = 10  # for each round
SAME = ["--ctx", "8192", "--parallel", "16", "--gap-ms", "50"]  # of serve and simulate: nothing is left to `auto`
EACH, ALL = 0.15, 0.10
ARRIVED = 3  # a record's kind


def command(o, *args, timeout=900):
    run = subprocess.run([o.headway, *args], capture_output=True, text=True, timeout=timeout)
    if run.returncode:
        raise Failed(f"headway {' '.join(args[:2])}: {run.stderr.strip()[-400:]}")
    return run


def read_json(path):
    with open(path) as f:
        return json.load(f)


def write_json(path, value):
    with open(path + ".part", "w") as f:
        json.dump(value, f)
    os.replace(path + ".part", path)


# ---- what a report says ----


def figures(report):
    """-> {(phase, role, what): value}, TTFTs in ms by (phase, role), worst gaps by (phase, role)"""
    found, waits, worst = {}, {}, {}
    for phase in report["phases"]:
        for cell in phase["cells"]:
            where = (phase["name"], cell["role"])
            for part in ("median", "p99"):
                if cell["itl_ms"]["count"] >= 5:
                    found[(*where, f"ITL {part}, ms")] = cell["itl_ms"][part]
            if cell["itl_ms"]["count"]:
                worst[where] = cell["itl_ms"]["max"]
        found[(phase["name"], "all", "seconds")] = phase["end_s"] - phase["start_s"]
    for r in report["requests"]:
        if r["ttft_ms"]:
            waits.setdefault((report["phases"][r["phase"]]["name"], r["role"]), []).append(r["ttft_ms"])
    return found, waits, worst


def between(values, p):
    """A quantile as `headway bench` has it: between two values by their distance."""
    ordered, at = sorted(values), p * (len(values) - 1)
    low = int(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def server_gaps(report, trace):
    """Gaps between tokens as the server's clock has them -> {(phase, role, what): ms}. A client sees texts: a token
    with half a character in it, or a byte of an emoji, brings none, and one answer of such decides a percentile."""
    requests = sorted(report["requests"], key=lambda r: r["sent_s"])
    arrivals = [m for m in trace.moments if m[0] == ARRIVED][-len(requests):]  # what came before is bench's own look
    if trace.lost or len(arrivals) < len(requests):
        raise Failed("the server's records are not whole")
    of = {a[2]: (report["phases"][r["phase"]]["name"], r["role"]) for a, r in zip(arrivals, requests)}
    gaps, found = {}, {}
    for t in trace.tokens:
        if t["duration"] and t["request"] in of:
            gaps.setdefault(of[t["request"]], []).append(t["duration"] / 1e3)
    for where, values in gaps.items():
        for part, p in (("median", 0.5), ("p99", 0.99)):
            found[(*where, f"ITL {part}, ms")] = between(values, p)
    return found


# ---- real runs ----


class Recorder:
    """The events of a server's trace while the block runs."""

    LAST_S = 1.5  # the server sends what it has about twice a second

    def __init__(self, server):
        self.port, self.events, self.over, self.socket = server.port, [], False, None
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        while not self.over:
            connection, parts = http.client.HTTPConnection("127.0.0.1", self.port), []
            try:
                connection.request("GET", "/debug/trace?seconds=60")
                self.socket = connection.sock
                answer = connection.getresponse()
                if answer.status != 200:
                    raise OSError(answer.status)
                while data := answer.read1(1 << 16):
                    parts.append(data)
            except (http.client.HTTPException, OSError):
                self.over |= not parts
            self.take(b"".join(parts).decode(errors="replace"))

    def take(self, text):
        """What is cut off within an event is left out."""
        decoder, at = json.JSONDecoder(), text.find("{")
        while at >= 0:
            try:
                event, at = decoder.raw_decode(text, at)
            except json.JSONDecodeError:
                break
            self.events.append(event)
            at = text.find("{", at)
        self.events.append({"ph": "i", "s": "t", "name": "records lost", "pid": 1, "tid": 2, "ts": 0})  # between two

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        time.sleep(self.LAST_S)
        self.over = True
        if self.socket:
            try:
                self.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join(70)


def real_run(o, place, model, policy, load, seed):
    """Keeps place.json (the report), place.gaps.json and place.trace.json."""
    if all(os.path.exists(place + end) for end in (".json", ".gaps.json", ".trace.json")):
        return
    with Server(o, ["--model", model, "--policy", policy, *SAME]) as server:
        server.idle(30)
        trace = Trace(server)
        with Recorder(server) as recorder, concurrent.futures.ThreadPoolExecutor(1) as pool:
            run = pool.submit(command, o, "bench", *load, "--url", f"http://127.0.0.1:{server.port}", "--seed",
                              str(seed), "--json", place + ".json")
            while not run.done():
                concurrent.futures.wait([run], timeout=2)
                trace.read()
            run.result()
    gaps = server_gaps(read_json(place + ".json"), trace)
    if not any(e["name"] == "arrived" for e in recorder.events):
        raise Failed("the server's trace did not come")
    write_json(place + ".trace.json", recorder.events)
    write_json(place + ".gaps.json", [[list(key), value] for key, value in gaps.items()])


def real_figures(place):
    found, waits, worst = figures(read_json(place + ".json"))
    for key, value in read_json(place + ".gaps.json"):
        if tuple(key) in found:
            found[tuple(key)] = value
    return found, waits, worst


# ---- the same, simulated ----


def simulated(o, folder, costs, policy, flags, seed):
    path, runs = os.path.join(folder, "simulated.json"), []
    for i in range(SIMULATED_SEEDS):
        command(o, "simulate", *flags, "--hardware", costs, "--policy", policy, "--seed", str(seed + 1000 * i), *SAME,
                "--json", path)
        runs.append(figures(read_json(path)))
    return runs


def place_of(folder, i, kind, policy):
    return os.path.join(folder, f"{i}.{kind}.{policy}")


def costs_of(folder, source, i, kind, policy, policies):
    """-> path of the trace that says what steps cost"""
    if source == "own":
        return place_of(folder, i, kind, policy) + ".trace.json"
    path = os.path.join(folder, "others.trace.json")
    write_json(path, [e for other in policies if other != policy
                      for e in read_json(place_of(folder, i, kind, other) + ".trace.json")])
    return path


def joined(runs):
    """Of (figures, waits, worst): the median of each figure, those of all waits, and the figures of each run."""
    found = {key: [r[0][key] for r in runs if key in r[0]] for key in runs[0][0]}
    values = {key: median(v) for key, v in found.items() if len(v) == len(runs)}
    for where in {w for r in runs for w in r[1]}:
        waits = [r[1].get(where, []) for r in runs]
        if sum(map(len, waits)) >= 5 * len(runs):
            key = (*where, "TTFT median, ms")
            values[key] = median([x for w in waits for x in w])
            found[key] = [median(w) for w in waits if w]
    return values, found


def judge(o, report, name, policy, real, runs):
    """`runs`: by the source of the costs."""
    here, each = joined(real)
    there = {source: joined(r)[0] for source, r in runs.items()}
    for key in here:
        for source, values in there.items():
            if key not in values or not here[key]:
                raise Failed(f"{name} {policy}: the simulation has no {key}")
            off = values[key] / here[key] - 1
            o.off.setdefault(source, {}).setdefault(key[2], []).append(abs(off))
            report.check(f"{name} {policy:13} {key[0]}, {key[1]}: {key[2]}, {source} costs",
                         f"{here[key]:.4g} ({min(each[key]):.4g} to {max(each[key]):.4g}) +-15%",
                         f"{values[key]:.4g} {100 * off:+.0f}%", abs(off) <= EACH)
    for where in real[0][2]:
        both = zip(real, runs["own"][::SIMULATED_SEEDS])
        pairs = ", ".join(f"{a[2].get(where, 0):.0f}/{b[2].get(where, 0):.0f}" for a, b in both)
        report.note(f"{name} {policy} {where[0]}, {where[1]}: worst gaps {pairs} ms (real/simulated)")


def judge_all(o, report, name):
    for source, off in o.off.items():
        every = [x for values in off.values() for x in values]
        for what, values in [*off.items(), ("all figures", every)]:
            within = f"{sum(x <= EACH for x in values)} of {len(values)} within 15%"
            report.note(f"{name}, {source} costs, {what}: {within}, median {100 * median(values):.1f}%, worst "
                        f"{100 * max(values):.0f}%")
        report.check(f"{name}: median of all figures, {source} costs", "<= 0.10", round(median(every), 3),
                     median(every) <= ALL)
    o.off = {}


def run_model(o, report, name, model, folder, marks=()):
    """`marks`: flags of simulate for what the model's chat template adds."""
    load, real, runs = QUICK if o.quick else LOADS, {}, {}
    sources = ["own"] + (["others"] if len(o.policies) > 1 else [])
    for i in range(o.runs):
        for kind in o.loads:
            for policy in o.policies:
                place = place_of(folder, i, kind, policy)
                real_run(o, place, model, policy, load[kind], o.seed + i)
                real.setdefault((policy, kind), []).append(real_figures(place))
    for policy, kind in real:
        runs = {source: [run for i in range(o.runs) for run in
                         simulated(o, folder, costs_of(folder, source, i, kind, policy, o.policies), policy,
                                   [*load[kind], *marks], o.seed + i)] for source in sources}
        judge(o, report, name, policy, real[policy, kind], runs)
    judge_all(o, report, name)


def folder_of(o, name):
    """Where a model's runs are kept: the user's folder, or one that goes with the process."""
    base = o.keep or o.scratch.name
    path = os.path.join(base, f"{name}-quick" if o.quick else name)
    os.makedirs(path, exist_ok=True)
    return path


def smollm(o, report):
    run_model(o, report, "smollm", o.model, folder_of(o, "smollm"))


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
    folder = folder_of(o, "hybrid")
    model = os.path.join(folder, "small_hybrid.gguf")
    run_model(o, report, "hybrid", model if os.path.exists(model) else small_hybrid(o, folder), folder, BYTES)


def main():
    ap = bars.arguments(__doc__, "--json")
    ap.add_argument("--policies", default=",".join(POLICIES))
    ap.add_argument("--loads", default=",".join(LOADS))
    ap.add_argument("--keep", help="a folder for reports and traces; what it has is not run again")
    o = ap.parse_args()
    o.port, o.policies, o.loads, o.off = None, o.policies.split(","), o.loads.split(","), {}
    o.scratch = tempfile.TemporaryDirectory()
    unknown = [x for x in o.policies if x not in POLICIES] + [x for x in o.loads if x not in LOADS]
    if unknown:
        sys.exit(f"{unknown[0]}: no such policy or load")
    if o.quick:
        o.runs = 1
    bars.run_all(o, {"smollm": smollm, "hybrid": hybrid}, table=True)


if __name__ == "__main__":
    main()
