#!/usr/bin/env python3
"""A day of a coding team, in minutes: six agents with tools and thoughts on the default model, clients that vanish in
the middle of an answer and ask again, and batch jobs underneath all the while. Prints wanted, measured, met.

usage: bench_day.py HEADWAY MODEL.gguf [--seconds 300] [--quick] [--gap-ms 50] [--out FILE.json] [--seed N]

The day has 24 hours of equal length, with a night, a lunch and two peaks. The bars:
- errors: of any request, answer, call or line of a batch;
- the gap bound, by the server's own clock for each token of the agents, and by the clients' for what they see; the
  largest hole that a canary saw (a thread that wakes each 1 ms, in a process of its own) says what was the machine's;
- fill: of the time in which no agent waits for an answer, the share in which the device ran a step;
- at the end, with the batches cancelled: no running request, no page held, no connection or file more than before,
  and no more memory than at the start and the page pool, which fills, within a bound.
--quick is a day of 30 s. Standard library only.
"""

import os, tempfile, threading, time

import bars
from cadence_client import *
from day_agents import Agent, Desk
from day_batches import Batches

HOURS = (0, 0, 0, 0, 0, 0.05, 0.1, 0.3, 0.7, 1, 1, 0.8, 0.2, 0.7, 1, 1, 0.9, 0.6, 0.3, 0.2, 0.3, 0.2, 0.05, 0)
AGENTS = 6
POOL_BYTES = 512 << 20
MEMORY_BYTES = 160 << 20  # the server's own bounds: 96 MB of token masks, 16 of calls, the rest for requests under way


class Watch(threading.Thread):
    """Reads the server's trace and memory once in a while, until it is stopped."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.trace, self.memory = server, Trace(server), []
        self.stopped = threading.Event()
        self.start()

    def run(self):
        while not self.stopped.wait(2):
            self.look()
        self.look()

    def look(self):
        self.trace.read()
        self.memory.append((now_ns(), self.server.memory()))

    def stop(self):
        self.stopped.set()
        self.join(30)


def merged(spans):
    """Spans of time that may overlap, as ones that do not, in order."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def gaps_between(busy, begin, end):
    """What is left of [begin, end] beside `busy`, which is merged."""
    out, at = [], begin
    for b, e in busy:
        if b > at:
            out.append((at, min(b, end)))
        at = max(at, e)
    if at < end:
        out.append((at, end))
    return [(b, e) for b, e in out if e > b]


def overlap(spans, windows):
    """How much of `windows` is within `spans`; both in order and without overlaps."""
    total, i = 0, 0
    for begin, end in windows:
        while i < len(spans) and spans[i][1] <= begin:
            i += 1
        k = i
        while k < len(spans) and spans[k][0] < end:
            total += min(end, spans[k][1]) - max(begin, spans[k][0])
            k += 1
    return total


def steps_ns(trace):
    return merged([(s["start"] * 1000, (s["start"] + s["duration"]) * 1000) for s in trace.steps])


def batch_rate(trace, windows):
    """Tokens of batch work a second of `windows`."""
    seconds = sum(e - b for b, e in windows) / 1e9
    ends = [(t["start"] + t["duration"]) * 1000 for t in trace.tokens if t["klass"] == 1]
    return sum(any(b <= at < e for b, e in windows) for at in ends) / seconds if seconds else float("nan")


def state_of(server):
    m = server.metrics()
    files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    return {"running": m["vllm:num_requests_running", ()] + m["vllm:num_requests_waiting", ()],
            "held": m["headway:pages", ()] - m["headway:pages_free", ()], "files": files, "memory": server.memory()}


def settle(server, before, seconds=20):
    """The state once it is as before, or after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        now = state_of(server)
        if time.monotonic() > end or (not now["running"] and not now["held"] and now["files"] <= before["files"]):
            return now
        time.sleep(0.1)


def live(o, desk, seconds):
    """The day itself. -> (begin, end)"""
    begin = now_ns()
    desk.begin(begin, seconds, HOURS)
    agents = [Agent(desk, i, rng_of(o, "agent", i)) for i in range(AGENTS)]
    for a in agents:
        a.start()
    for a in agents:
        a.join(seconds + 120)
    if any(a.is_alive() for a in agents):
        raise Failed("an agent's request does not end")
    return begin, max(now_ns(), begin + int(seconds * 1e9))


def check_gap(o, report, server, desk, watch, begin, end, canary):
    server_gaps = [t["duration"] / 1e3 for t in watch.trace.tokens
                   if t["duration"] and t["klass"] == 0 and begin <= t["start"] * 1000 < end]
    client_gaps = desk.gaps
    p99, worst = quantile(server_gaps, 0.99), max(server_gaps, default=float("nan"))
    report.note(f"gaps of the agents by the server's clock: {len(server_gaps)}, p99 {p99:.1f}, worst {worst:.1f} ms; "
                f"as the clients saw texts: {len(client_gaps)}, p99 {quantile(client_gaps, 0.99):.1f}, worst "
                f"{max(client_gaps, default=float('nan')):.1f} ms", server_p99=p99, server_worst=worst,
                client_p99=quantile(client_gaps, 0.99), client_worst=max(client_gaps, default=None))
    causes = {k[1][0][1]: int(v) for k, v in server.metrics().items() if k[0] == "headway_gap_violations_total"}
    report.note(f"gaps over the bound, by cause: {causes}", violations=causes)
    report.check("gaps of the agents, p99, ms", f"<= {o.gap_ms}", p99, p99 <= o.gap_ms, canary)
    report.check("gaps of the agents, worst, ms, less the largest hole", f"<= {2 * o.gap_ms}",
                 worst - canary.hole_ms, worst - canary.hole_ms <= 2 * o.gap_ms, canary)


def check_fill(report, desk, watch, begin, end):
    steps, busy = steps_ns(watch.trace), merged(desk.spans)
    idle = gaps_between(busy, begin, end)
    idle_s = sum(e - b for b, e in idle) / 1e9
    share = overlap(steps, idle) / 1e9 / idle_s if idle_s else float("nan")
    whole = overlap(steps, [(begin, end)]) / (end - begin)
    rate, all_day = batch_rate(watch.trace, idle), batch_rate(watch.trace, [(begin, end)])
    report.note(f"no agent waited in {idle_s:.1f} of {(end - begin) / 1e9:.1f} s; batch made {rate:.0f} tokens a "
                f"second then, {all_day:.0f} over the day; the device was busy {100 * whole:.1f}% of it", idle_s=idle_s,
                batch_tok_s_idle=rate, batch_tok_s=all_day, busy_share=whole)
    report.check("share of the idle time that batch work fills", ">= 0.9", share, share >= 0.9)
    if watch.trace.lost:
        report.note(f"{watch.trace.lost} records of the trace were lost")


def check_end(report, server, watch, before, after):
    most = max(m for _, m in watch.memory)
    more = most - before["memory"] - POOL_BYTES
    report.check("requests, pages held and open files over the start's", "0",
                 after["running"] + after["held"] + max(0, after["files"] - before["files"]),
                 not after["running"] and not after["held"] and after["files"] <= before["files"])
    report.check("memory over the start's and the pool's, MB", f"<= {MEMORY_BYTES >> 20}", more / (1 << 20),
                 more <= MEMORY_BYTES)
    half = watch.memory[len(watch.memory) // 2][1]
    report.note(f"memory: {before['memory'] >> 20} MB at the start, {half >> 20} at half time, {most >> 20} at most")


def scenario_day(o, report):
    seconds = 30 if o.quick else o.seconds
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--model", o.model, "--ctx", "8192", "--gap-ms", str(o.gap_ms),
                 "--kv-memory", f"{POOL_BYTES >> 20}M", "--tool-parser", "hermes", "--reasoning-parser", "think",
                 "--batch-dir", folder]
        with Server(o, flags) as server:
            before = state_of(server)
            batches, desk = Batches(server, rng_of(o, "batches"), 6 if o.quick else 16), Desk(server)
            watch = Watch(server)
            batches.start()
            batches.wait_running(60)
            with Canary() as canary:
                begin, end = live(o, desk, seconds)
            batches.stop()
            after = settle(server, before)
            watch.stop()
            errors = desk.errors + batches.errors
            report.note(f"agents: {desk.sessions} sessions, {desk.requests} requests, {desk.calls} calls, "
                        f"{desk.thoughts} thoughts, {desk.aborts} aborts and as many retries; batch: {batches.ended} "
                        f"jobs ended, {batches.lines} lines", sessions=desk.sessions, requests=desk.requests,
                        calls=desk.calls, aborts=desk.aborts, jobs=batches.ended, lines=batches.lines)
            for text in errors[:10]:
                report.note(f"error: {text}")
            report.check("errors", "0", len(errors), not errors)
            check_gap(o, report, server, desk, watch, begin, end, canary)
            check_fill(report, desk, watch, begin, end)
            check_end(report, server, watch, before, after)


def main():
    ap = bars.arguments(__doc__)
    ap.add_argument("--seconds", type=float, default=300)
    ap.add_argument("--gap-ms", type=int, default=50)
    o = ap.parse_args()
    o.port = None
    bars.run_all(o, {"day": scenario_day})


main()
