"""Scenarios of bench_cadence.py: what streams and documents do to each other. Each takes the options and a report."""

import time
from cadence_client import *

DOCUMENT_WORDS = 4000  # with the template about 4,030 tokens
CHAT_TOKENS = 3000
LLAMA = """
import sys, time, xllamacpp as x
p = x.CommonParams(); p.model.path = sys.argv[1]; p.n_parallel = 4; p.n_ctx = 32768
p.cpuparams.n_threads = 2; p.cpuparams_batch.n_threads = 2; p.port = int(sys.argv[2])
s = x.Server(p)
while True: time.sleep(1)
"""


class Chat:
    """A conversation without pause: when an answer ends, the next request goes out."""

    def __init__(self, server, rng, tokens=CHAT_TOKENS, **more):
        self.server, self.rng, self.tokens, self.more = server, rng, tokens, more
        self.streams, self.stopped = [], False
        self.go_on(None)

    def go_on(self, ended):
        if self.stopped or (ended and not ended.ok()) or len(self.streams) > 1000:
            return
        body = chat_body(self.rng, self.tokens, **self.more)
        self.streams.append(self.server.reader.post(body, on_done=self.go_on))

    def wait_tokens(self, count, timeout=120):
        stream = self.streams[-1]
        if not stream.wait_tokens(count, timeout):
            raise Failed(f"a chat made {len(stream.times)} of {count} tokens in {timeout} s, status {stream.status} "
                         f"{stream.text[:200]!r}")

    def gaps(self, begin, end):
        return [g for s in self.streams for g in gaps_ms(s.times, begin, end)]

    def count(self, begin, end):
        return sum(begin <= t < end for s in self.streams for t in s.times)

    def stop(self):
        self.stopped = True
        self.streams[-1].abort()
        self.streams[-1].done.wait(10)


def warm(server, rng):
    stream = server.reader.post(chat_body(rng, 16))
    if not stream.done.wait(120) or not stream.ok() or not stream.times:
        raise Failed(f"the first request failed: status {stream.status} {stream.text[:300]!r}")


def documents(server, rng, count, size, timeout, **more):
    """`count` documents at once. -> (begin, end of the last or of the timeout, the streams)"""
    begin = now_ns()
    streams = [server.reader.post(document_body(rng, size, **more)) for _ in range(count)]
    limit = time.monotonic() + timeout
    for s in streams:
        s.done.wait(max(0.01, limit - time.monotonic()))
    bad = [s for s in streams if s.closed and s.status != 200]
    if bad:
        raise Failed(f"a document was refused: {bad[0].status} {bad[0].text[:300]!r}")
    ends = [s.ended if s.closed else now_ns() for s in streams]
    return begin, max(ends), streams


def solo_itl_ms(server, rng, count, begin=0):
    """Gaps of a chat alone, of its tokens from `begin` to `count`."""
    stream = server.reader.post(chat_body(rng, count))
    stream.done.wait(300)
    if not stream.ok() or len(stream.times) < 2:
        raise Failed(f"a chat alone failed: status {stream.status} {stream.text[:200]!r}")
    return gaps_ms(stream.times[begin:])


def flags_of(o, *more):
    return ["--model", o.model, "--ctx", "8192", *more]


# ---- gap ----


def gap_run(o, server, rng, chats, count, cut_s):
    """One run. -> dict of the gaps of all chats while documents were read, and what came of the documents."""
    talk = [Chat(server, rng) for _ in range(chats)]
    try:
        for c in talk:
            c.wait_tokens(10)
        time.sleep(0.5)
        with Canary() as canary:
            begin, end, streams = documents(server, rng, count, o.words, cut_s)
        gaps = [g for c in talk for g in c.gaps(begin, end)]
        tokens = sum(c.count(begin, end) for c in talk)
        for s in streams:
            if not s.closed:
                s.abort()
    finally:
        for c in talk:
            c.stop()
    server.idle(60)
    read = [s for s in streams if s.ok() and s.times]
    return {"gaps": gaps, "p99": quantile(gaps, 0.99), "worst": max(gaps, default=float("nan")), "canary": canary,
            "seconds": (end - begin) / 1e9, "chat_tok_s": tokens / chats / ((end - begin) / 1e9), "read": len(read),
            "document_tokens": read[0].usage["prompt_tokens"] if read and read[0].usage else None}


def gap_bar(o, report, gap, chats=1, count=3, runs=None, cut_s=300, worst_ms=None, p99_ms=None, server=None):
    """`worst_ms` None: twice the bound."""
    runs, p99_ms, rng = runs or o.runs, p99_ms or gap, rng_of(o, report.name)
    worst_ms = worst_ms or 2 * gap
    good, results = 0, []
    with server or Server(o, flags_of(o, "--gap-ms", str(gap))) as server:
        warm(server, rng)
        solo = median(solo_itl_ms(server, rng, 60))
        for i in range(runs):
            trace = None if server.foreign else Trace(server)
            r = gap_run(o, server, rng, chats, count, cut_s)
            met = r["p99"] <= p99_ms and r["worst"] <= worst_ms and len(r["gaps"]) > 10
            good += met
            note = ""
            if trace:
                seen = [t["duration"] / 1e3 for t in trace.read().tokens if t["duration"] and t["klass"] == 0]
                r["server_p99"], r["server_worst"] = quantile(seen, 0.99), max(seen, default=float("nan"))
                note = f"; server clock p99 {r['server_p99']:.1f}, worst {r['server_worst']:.1f}"
            report.note(
                f"run {i + 1}: p99 {r['p99']:.1f} worst {r['worst']:.1f} ms of {len(r['gaps'])} gaps, chat "
                f"{r['chat_tok_s']:.1f} tok/s (alone {1e3 / solo:.0f}), {r['read']} of {count} documents of "
                f"{r['document_tokens']} tokens in {r['seconds']:.1f} s, hole {r['canary'].hole_ms:.1f} ms{note}")
            results.append(r)
        if not server.foreign:
            causes = {k[1][0][1]: v for k, v in server.metrics().items() if k[0] == "headway_gap_violations_total"}
            report.note(f"violations by cause: {causes}", violations=causes)
    keep = ("p99", "worst", "seconds", "chat_tok_s", "read", "document_tokens", "server_p99", "server_worst")
    report.details["runs"] = [{**{k: r.get(k) for k in keep}, **r["canary"].facts()} for r in results]
    report.details["solo_itl_ms"] = solo
    everything = [g for r in results for g in r["gaps"]]
    holes = max((r["canary"] for r in results), key=lambda c: c.hole_ms)
    what = f"{chats} chat(s), {count} documents"
    return everything, good, runs, holes, what, results


def scenario_gap(o, report, gap=50, **load):
    everything, good, runs, holes, what, _ = gap_bar(o, report, gap, **load)
    report.check(f"{what}: p99 gap of all runs, ms", f"<= {gap}", quantile(everything, 0.99),
                 quantile(everything, 0.99) <= gap, holes)
    report.check(f"{what}: runs with p99 <= {gap} and worst <= {2 * gap} ms", "4 of 5", f"{good} of {runs}",
                 good >= 0.8 * runs, holes)
    report.check(f"{what}: worst gap of all runs, ms", f"<= {2 * gap}", max(everything), max(everything) <= 2 * gap,
                 holes)


def scenario_gap_queue(o, report):
    scenario_gap(o, report, count=o.queue, cut_s=o.cut_s)


def scenario_gap_8(o, report):
    scenario_gap(o, report, chats=8)


def scenario_gap_25(o, report):
    everything, good, runs, holes, what, _ = gap_bar(o, report, 25, p99_ms=30, worst_ms=1e9)
    p99 = quantile(everything, 0.99)
    report.check(f"{what}: p99 gap of all runs at --gap-ms 25, ms", "<= 30", p99, p99 <= 30, holes)
    report.check(f"{what}: runs with p99 <= 30 ms", "4 of 5", f"{good} of {runs}", good >= 0.8 * runs, holes)


def scenario_llama(o, report):
    if not o.llama:
        raise Failed("--llama names a Python that has xllamacpp")
    server = Server(o, [], program=[o.llama, "-c", LLAMA, o.model])
    everything, _, _, holes, what, results = gap_bar(o, report, 50, runs=1, server=server)
    report.check(f"llama.cpp, {what}: p99 gap, ms", "-", quantile(everything, 0.99), True, holes)
    report.check(f"llama.cpp, {what}: worst gap, ms", "-", max(everything), True, holes)
    report.check(f"llama.cpp, {what}: chat tok/s beside them", "-", results[0]["chat_tok_s"], True)


# ---- gate ----


def scenario_gate(o, report):
    rng = rng_of(o, "gate")
    with Server(o, flags_of(o, "--policy", "gate")) as server:
        warm(server, rng)
        for i in range(max(1, o.runs // 2)):
            chat = Chat(server, rng)
            chat.wait_tokens(10)
            trace = Trace(server)
            with Canary() as canary:
                begin, end, _ = documents(server, rng, 3, o.words, 300)
            chat.stop()
            stream, trace = chat.streams[0], trace.read()
            first, last = (sum(t < x for t in stream.times) for x in (begin, end))
            chunk = max(c["us"] for c in trace.chunks()) / 1e3
            worst = max(chat.gaps(begin, end))
            runs = [(s["start"] * 1000, (s["start"] + s["duration"]) * 1000) for s in trace.steps if s["kind"]]
            inside = [(b - a) / 1e6 for a, b in zip(stream.times[first:last], stream.times[first + 1:last])
                      if not any(x < b and y > a for x, y in runs)]
            server.idle(60)
            solo = median(solo_itl_ms(server, rng, last, first))
            report.note(f"run {i + 1}: {len(runs)} prefill runs, chunk {chunk:.0f} ms, {last - first} tokens, "
                        f"{len(inside)} gaps in windows, solo ITL {solo:.2f} ms", chunk_ms=chunk, solo_itl_ms=solo)
            report.check("worst gap by the longest chunk's time", "<= 1.3", worst / chunk, worst <= 1.3 * chunk, canary)
            report.check("median ITL in a window by solo at that depth", "<= 1.1", median(inside) / solo,
                         median(inside) <= 1.1 * solo, canary)


# ---- rate, batch ----


def scenario_rate(o, report):
    rng = rng_of(o, "rate")
    with Server(o, flags_of(o, "--chat-share", "0.5", "--gap-ms", "50")) as server:
        warm(server, rng)
        shares, slower = [], []
        for i in range(max(1, o.runs // 2)):
            begin, end, _ = documents(server, rng, 3, o.words, 300)
            alone = (end - begin) / 1e9
            chat = Chat(server, rng)
            chat.wait_tokens(10)
            with Canary() as canary:
                begin, end, _ = documents(server, rng, 3, o.words, 600)
            chat.stop()
            server.idle(60)
            mixed, times = (end - begin) / 1e9, chat.streams[0].times
            first, last = (sum(t < x for t in times) for x in (begin, end))
            solo = solo_itl_ms(server, rng, last, first)
            rate, solo_rate = (last - first) / mixed, len(solo) * 1e3 / sum(solo)
            shares.append(rate / solo_rate)
            slower.append(mixed / alone)
            report.note(f"run {i + 1}: chat {rate:.1f} tok/s, alone at that depth {solo_rate:.1f}; documents "
                        f"{mixed:.1f} s, alone {alone:.1f} s")
        report.details["runs"] = [{"chat_of_solo": a, "documents_slower": b} for a, b in zip(shares, slower)]
        report.check("chat's rate by its rate alone, median", ">= 0.45", median(shares), median(shares) >= 0.45, canary)
        report.check("documents' time by their time alone, median", "<= 2.2", median(slower), median(slower) <= 2.2,
                     canary)


def scenario_batch(o, report):
    rng, depth = rng_of(o, "batch"), 800 if o.quick else 7000
    with Server(o, flags_of(o, "--gap-ms", "50")) as server:
        warm(server, rng)
        count = 100 if o.quick else 300
        batch = [server.reader.post(document_body(rng, depth - 40, 1100, service_tier="flex")) for _ in range(4)]
        for s in batch:
            if not s.wait_tokens(1, 300):
                raise Failed(f"a batch stream did not start: {s.status} {s.text[:200]!r}")
        before = [len(s.times) for s in batch]
        with Canary() as canary:
            chat = server.reader.post(chat_body(rng, count))
            chat.done.wait(120)
        begin, end = chat.times[0], chat.times[-1]
        made = sum(begin <= t < end for s in batch for t in s.times)
        through = all(not s.closed for s in batch)
        for s in batch:
            s.abort()
        server.idle(60)
        solo, itl = median(solo_itl_ms(server, rng, count)), median(gaps_ms(chat.times))
        report.note(f"batch streams at {before} tokens past a prompt of {depth}; beside the chat they made "
                    f"{made / ((end - begin) / 1e9):.1f} tok/s; chat ITL median {itl:.2f}, p99 "
                    f"{quantile(gaps_ms(chat.times), 0.99):.1f}, worst {max(gaps_ms(chat.times)):.1f} ms; alone "
                    f"{solo:.2f}", batch_tok_s=made / ((end - begin) / 1e9), all_decoded_throughout=through)
        report.check("chat beside 4 batch streams: median ITL by solo", "<= 1.25", itl / solo, itl <= 1.25 * solo,
                     canary)
        report.check("the batch streams decoded throughout and were not starved", "yes", made, through and made > 0)


# ---- cost ----


def document_time(o, flags, rng, chat_too):
    """3 documents beside a chat -> (seconds, chat tok/s, canary); else one after the other -> the trace."""
    with Server(o, flags_of(o, *flags)) as server:
        warm(server, rng)
        if chat_too:
            chat = Chat(server, rng)
            chat.wait_tokens(10)
            with Canary() as canary:
                begin, end, _ = documents(server, rng, 3, o.words, 600)
            seconds = (end - begin) / 1e9
            chat.stop()
            return seconds, chat.count(begin, end) / seconds, canary
        trace = Trace(server)
        for _ in range(3):
            documents(server, rng, 1, o.words, 300)
        return trace.read()


def scenario_cost(o, report):
    cadence, first = ["--gap-ms", "50", "--chat-share", "0"], ["--policy", "prefill-first"]
    ratios = []
    for i in range(max(1, o.runs // 2 + 1)):
        ours, chat, canary = document_time(o, cadence, rng_of(o, "cost", i), True)
        theirs, chat_first, _ = document_time(o, first, rng_of(o, "cost", i), True)
        ratios.append(ours / theirs)
        report.note(f"round {i + 1}: 3 documents in {ours:.1f} s under cadence (chat {chat:.1f} tok/s), {theirs:.1f} s "
                    f"under prefill-first (chat {chat_first:.1f} tok/s): {ours / theirs:.3f}")
    report.details["ratios"] = ratios
    report.check("documents' time beside a chat, by prefill-first's, median", "<= 1.2", median(ratios),
                 median(ratios) <= 1.2, canary)
    plain = [document_time(o, f, rng_of(o, "cost"), False) for f in (cadence, first)]
    chunks = [[(c["position"], c["tokens"]) for c in t.chunks()] for t in plain]
    steps = [[(s["kind"], s["position"], s["tokens"]) for s in t.steps] for t in plain]
    report.note(f"no chat: {len(chunks[0])} chunks in {len(steps[0])} steps under cadence, {len(chunks[1])} in "
                f"{len(steps[1])} under prefill-first; sizes {sorted({c[1] for c in chunks[0]})}")
    report.check("no chat: the same chunks", "yes", "yes" if chunks[0] == chunks[1] else "no", chunks[0] == chunks[1])
    report.check("no chat: extra steps", "0", len(steps[0]) - len(steps[1]), steps[0] == steps[1] and not plain[0].lost)


# ---- starvation ----


def scenario_starvation(o, report):
    rng = rng_of(o, "starvation")
    with Server(o, flags_of(o, "--gap-ms", "50", "--chat-share", "0")) as server:
        warm(server, rng)
        begin, end, _ = documents(server, rng, 3, o.words, 300)
        alone = (end - begin) / 1e9
        talk = [Chat(server, rng) for _ in range(3)]
        for c in talk:
            c.wait_tokens(10)
        with Canary() as canary:
            begin, end, _ = documents(server, rng, 3, o.words, 600)
        mixed = (end - begin) / 1e9
        gaps = [g for c in talk for g in c.gaps(begin, end)]
        report.note(f"documents {alone:.1f} s alone, {mixed:.1f} s beside 3 chats of "
                    f"{sum(c.count(begin, end) for c in talk) / 3 / mixed:.1f} tok/s; their p99 gap "
                    f"{quantile(gaps, 0.99):.1f}, worst {max(gaps):.1f} ms")
        report.check("documents' rate beside 3 chats by their rate alone", ">= 0.8", alone / mixed,
                     alone / mixed >= 0.8, canary)
        with Canary() as canary:
            firsts = overtake(o, server, rng)
        for c in talk:
            c.stop()
        report.note("first token of 20-token prompts, ms: " + " ".join(f"{f:.0f}" for f in firsts), firsts_ms=firsts)
        report.check("20 tokens beside a document and 3 chats: worst TTFT, ms", "<= 100", max(firsts),
                     max(firsts) <= 100, canary)
        server.idle(60)
        with Canary() as canary:
            firsts = overtake(o, server, rng)
        report.note("the same without chats: " + " ".join(f"{f:.0f}" for f in firsts), firsts_ms_without_chats=firsts)
        report.check("20 tokens beside a document: worst TTFT, ms", "<= 100", max(firsts), max(firsts) <= 100, canary)


def overtake(o, server, rng):
    """TTFT of short prompts that arrive while documents are read, ms."""
    read = []
    def more(ended):
        if ended is None or (ended.ok() and len(read) < 1000):
            read.append(server.reader.post(document_body(rng, o.words), on_done=more))
    more(None)
    more(None)
    firsts = []
    for _ in range(o.tries):
        time.sleep(rng.uniform(0.3, 0.9))
        body = {"prompt": words(rng, 20), "max_tokens": 1, "stream": True, "temperature": 0, "ignore_eos": True,
                "skip_special_tokens": False}
        s = server.reader.post(body, path="/v1/completions")
        if not s.done.wait(60) or not s.times:
            raise Failed(f"a short prompt got no token: {s.status} {s.text[:200]!r}")
        firsts.append(s.ttft_ms())
    for s in read:
        s.on_done = None
        s.abort()
    return firsts
