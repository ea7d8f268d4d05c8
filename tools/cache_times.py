"""Scenarios of bench_cache.py that measure time: warm turns, restores, sweeps, a hybrid's return, decoding by KV type.
Each takes the options and a report."""

import os, shutil, time

from cache_client import *
from cadence_bars import LLAMA, Chat, documents, flags_of, warm

# ---- a warm turn ----


class Session:
    """A conversation with one server; each turn is timed and its answer becomes part of the next prompt."""

    def __init__(self, server, messages):
        self.server, self.messages = server, list(messages)

    def ask(self, question, **more):
        """-> the stream"""
        self.messages.append(question)
        stream = streamed(self.server, self.messages, **more)
        self.messages.append({"role": "assistant", "content": text_of(stream)})
        return stream


def scenario_warm(o, report):
    rng, turns = rng_of(o, "warm"), 3 if o.quick else max(5, 3 * o.runs)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Server(o, flags_of(o)))
        servers = {"headway": ours}
        if o.llama:
            servers["llama.cpp"] = stack.enter_context(Server(o, [], program=[o.llama, "-c", LLAMA, o.model]))
        writer = Writer(ours, rng)
        talk, first = writer.talk(2040), writer.question()
        sessions = {name: Session(s, talk) for name, s in servers.items()}
        cold = {name: s.ask(first).ttft_ms() for name, s in sessions.items()}
        times, sizes = {name: [] for name in servers}, []
        with Canary() as canary:
            for _ in range(turns):
                question = writer.question()
                for name, session in sessions.items():
                    stream = session.ask(question)
                    times[name].append(stream.ttft_ms())
                    if name == "headway":
                        sizes.append((stream.usage["prompt_tokens"], stream.usage["cached_tokens"]))
                time.sleep(0.3)
    for name in servers:
        report.note(f"{name}: first turn {cold[name]:.0f} ms, then median {median(times[name]):.1f}, "
                    f"{min(times[name]):.1f} to {max(times[name]):.1f} ms of {turns} turns", **{name: times[name]})
    report.note(f"prompts of {sizes[0][0]} to {sizes[-1][0]} tokens, of them found {sizes[0][1]} to {sizes[-1][1]}")
    report.check("warm turn: median TTFT, ms", "-", median(times["headway"]), True, canary)
    if o.llama:
        share = median(times["headway"]) / median(times["llama.cpp"])
        report.check("warm turn: median TTFT by llama.cpp's", "<= 0.167", share, share <= 1 / 6, canary)


# ---- from the disk ----


def restarted(o, flags):
    """A server whose memory is empty and whose first steps are behind it."""
    server = Server(o, flags)
    warm(server, rng_of(o, "first"))
    return server


def restore_once(o, flags, session, writer, cold=False):
    """One turn after a restart, then another in its place, from memory. -> dict"""
    again = Session(None, session.messages)
    with restarted(o, flags) as server:
        dropped = cold and drop_page_cache()
        before = tier_total(server, "restored_bytes_total")
        session.server = again.server = server
        disk = session.ask(writer.question())
        moved = tier_total(server, "restored_bytes_total") - before
        ram = again.ask(writer.question())
        wait_stored(server)
    return {"disk_ms": disk.ttft_ms(), "ram_ms": ram.ttft_ms(), "bytes": moved, "found": disk.usage["cached_tokens"],
            "prompt": disk.usage["prompt_tokens"], "restore_ms": disk.ttft_ms() - ram.ttft_ms(), "dropped": dropped}


def gaps_beside(o, flags, session, writer):
    """-> (gaps of a chat while a turn is restored, the turn)"""
    with restarted(o, flags) as server:
        chat = Chat(server, rng_of(o, "beside"))
        chat.wait_tokens(20)
        session.server = server
        begin = now_ns()
        turn_ = session.ask(writer.question())
        end = turn_.times[0]
        time.sleep(0.1)
        chat.stop()
        wait_stored(server)
    return chat.gaps(begin, end), turn_


def fio_rate(path, block, size="1g"):
    """Bytes per second of reading a file in blocks of that size, the best of some ways; None: no fio."""
    if not shutil.which("fio"):
        return None
    rates = []
    for engine, direct, depth in (("io_uring", 1, 16), ("psync", 0, 1), ("psync", 1, 1)):
        drop_page_cache()
        run = subprocess.run(["fio", "--name=r", f"--filename={path}/fio", f"--size={size}", "--rw=read",
                              f"--bs={block}", f"--ioengine={engine}", f"--direct={direct}", f"--iodepth={depth}",
                              "--output-format=json"], capture_output=True, text=True)
        if run.returncode == 0:
            rates.append(json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]["read"]["bw_bytes"])
    with contextlib.suppress(OSError):
        os.unlink(f"{path}/fio")
    return max(rates, default=None)


def note_restores(report, what, runs):
    report.note(f"{what}: " + "; ".join(f"{r['disk_ms']:.0f} ms, from memory {r['ram_ms']:.0f} ({r['found']} of "
                                        f"{r['prompt']} found, {r['bytes'] / 1e6:.0f} MB)" for r in runs),
                **{what: runs})


def scenario_disk(o, report):
    tokens, runs = (1500, 1) if o.quick else (8000, max(3, o.runs))
    with folder(o.disk) as path:
        flags = ["--model", o.model, "--ctx", "16384", "--cache-disk", path]
        with restarted(o, flags) as server:
            writer = Writer(server, rng_of(o, "disk"))
            talk = writer.talk(tokens)
            session, page = Session(server, talk), cache_state(server)["page_bytes"]
            first = session.ask(writer.question())
            wait_stored(server)
        report.note(f"cold: {first.usage['prompt_tokens']} tokens in {first.ttft_ms():.0f} ms")
        def again():
            return Session(None, session.messages)  # always the same prefix
        with Canary() as canary:
            some = [restore_once(o, flags, again(), writer) for _ in range(runs)]
        note_restores(report, "page cache warm", some)
        restore = median([r["restore_ms"] for r in some])
        report.check("restore, page cache warm: from disk less from memory, ms", "<= 100", restore,
                     restore <= 100 and all(r["bytes"] > 0 for r in some), canary)
        with Canary() as canary:
            worst, found = [], 0
            for _ in range(runs):
                gaps, stream = gaps_beside(o, flags, again(), writer)
                worst.append(max(gaps, default=float("nan")))
                found = stream.usage["cached_tokens"]
        said = " ".join(f"{w:.1f}" for w in worst)
        report.note(f"longest gap of a chat beside it, ms: {said} ({found} tokens found)")
        report.check("restore: longest gap of a chat beside it, median, ms", "<= 50", median(worst),
                     median(worst) <= 50, canary)
        some = [restore_once(o, flags, again(), writer, cold=True) for _ in range(runs)]
        if not all(r["dropped"] for r in some):
            report.note("page cache dropped: left out, it needs root")
            return
        note_restores(report, "page cache dropped", some)
        fio = fio_rate(path, page // 4096 * 4096)
        rate = median([r["bytes"] / (r["restore_ms"] / 1e3) for r in some if r["restore_ms"] > 0])
        if fio:
            report.note(f"read {rate / 1e6:.0f} MB/s, fio {fio / 1e6:.0f}", fio=fio)
            report.check("restore, page cache dropped: read rate by fio's", ">= 0.8", rate / fio, rate >= 0.8 * fio)


# ---- a hybrid's return ----


def short(number):
    """What somebody says to hear more: with a byte tokenizer it is ten tokens, with another two."""
    said = ("go on", "and then", "why", "what next", "more", "so")
    return {"role": "user", "content": said[number % len(said)]}


def return_of(o, report, model, tokens):
    """An answer is one token: random weights say what a tokenizer that is not theirs writes in other ones."""
    ram, disk = [], []
    with folder(o.disk) as path:
        flags = ["--model", model, "--ctx", str(tokens + 2048), "--parallel", "2", "--cache-disk", path]
        with Server(o, flags) as server:
            session = Session(server, Writer(server, rng_of(o, "hybrid")).talk(tokens, 20))
            cold = session.ask(short(0), timeout=1800, tokens=1)
            ram += [session.ask(short(i), tokens=1) for i in range(1, 4)]
            wait_stored(server)
        for restart in range(3):
            with Server(o, flags) as server:
                session.server = server
                disk.append(session.ask(short(restart), tokens=1))
                facts = cache_state(server)
                ram.append(session.ask(short(restart + 1), tokens=1))
                wait_stored(server)
    ram_ms, disk_ms = (median([s.ttft_ms() for s in turns]) for turns in (ram, disk))
    found = disk[-1].usage
    report.note(f"{cold.usage['prompt_tokens']} tokens cold in {cold.ttft_ms() / 1e3:.1f} s; found {ram[-1].usage} in "
                f"memory, {found} after a restart ({facts['hits']})", cold_ms=cold.ttft_ms())
    report.check(f"hybrid, {tokens} tokens: back from memory, ms", "< 1000", ram_ms, ram_ms < 1000)
    report.check(f"hybrid, {tokens} tokens: back from disk, ms", "< 1000", disk_ms,
                 disk_ms < 1000 and found["cached_tokens"] > tokens // 2)


def scenario_hybrid(o, report):
    if o.quick:
        with folder() as scratch:
            return_of(o, report, tiny(o, scratch, context=32768), 6000)
    else:
        return_of(o, report, big(o, "qwen3_5_35b_width_8_layers"), 23000)


def scenario_hybrid35(o, report):
    return_of(o, report, big(o, "qwen3_5_35b_a3b"), 23000)


# ---- sweeps ----


def next_turns(sessions, writer):
    """-> (median TTFT in ms, the worst, sessions whose prefix was not found but for the last turn)"""
    times, lost = [], 0
    for s in sessions:
        before = len(writer.prompt(s.messages, False))
        stream = s.ask(writer.question())
        times.append(stream.ttft_ms())
        lost += stream.usage["cached_tokens"] < before - 64
    return median(times), max(times), lost


def sweep(o, server, writer, count, size, batch):
    """Documents that nobody sent before, four at once."""
    tier = {"service_tier": "flex"} if batch else {}
    for _ in range(0, count, 4):
        _, _, streams = documents(server, writer.rng, 4, round(size / writer.word_tokens), 600, cache_prompt=True,
                                  **tier)
        if any(not s.ok() for s in streams):
            raise Failed("a document of the sweep got no answer")


def scenario_sweep(o, report):
    loads = ((20, 300), (4, 2000)) if o.quick else ((1000, 300), (60, 4000))
    with folder(o.disk) as path:
        flags = [*flags_of(o, "--cache-sessions", "6", "--cache-session-tokens", "3072"), "--cache-disk", path]
        with Server(o, flags) as server:
            writer = Writer(server, rng_of(o, "sweep"))
            talks = [writer.talk(2040) for _ in range(6)]
            for count, size in loads:
                for batch in (True, False):
                    sessions = [Session(server, t) for t in talks]
                    for _ in range(3):
                        next_turns(sessions, writer)
                    with Canary() as canary:
                        idle = median([next_turns(sessions, writer)[0] for _ in range(3)])
                        begin = time.monotonic()
                        sweep(o, server, writer, count, size, batch)
                        seconds = time.monotonic() - begin
                        server.idle(60)
                        middle, worst, lost = next_turns(sessions, writer)
                    what = f"{count} {'batch' if batch else 'plain'} documents of {size} tokens"
                    evicted = cache_state(server)["evicted_pages"]
                    report.note(f"{what}: {seconds:.0f} s; idle {idle:.1f} ms, then {middle:.1f}, worst {worst:.1f}; "
                                f"evicted {evicted}")
                    report.check(f"{what}: sessions no longer warm", "0 of 6", lost, lost == 0)
                    report.check(f"{what}: warm TTFT by idle's, medians", "<= 1.2", middle / idle, middle <= 1.2 * idle,
                                 canary)
                    talks = [s.messages[:len(t)] for s, t in zip(sessions, talks)]
            wait_stored(server)
        with Server(o, flags) as server:
            begin = now_ns()
            streams = []
            for s in sessions:
                s.server = server
                body = turn([*s.messages, writer.question()], 1, stream=True, ignore_eos=True,
                            skip_special_tokens=False, stream_options={"include_usage": True})
                streams.append(server.reader.post(body))
            for s in streams:
                if not s.done.wait(60) or not s.times:
                    raise Failed(f"a session's first turn after the restart failed: {s.status} {s.text[:200]!r}")
            last = (max(s.times[0] for s in streams) - begin) / 1e6
            found = [s.usage["cached_tokens"] for s in streams]
    report.note(f"after a restart, sent at once: first tokens after {last:.0f} ms; found {found}")
    report.check("restart: all 6 answered within, ms", "<= 1000", last, last <= 1000)
    report.check("restart: sessions found on the disk", "6", sum(f > 1500 for f in found), all(f > 1500 for f in found))


# ---- KV types ----


def decode_rate(o, kv, depth):
    run = subprocess.run([o.headway, "bench", "--model", o.model, "--prefill", "512", "--depth", str(depth), "--repeat",
                          "1", "--json", "--kv", kv], capture_output=True, text=True)
    if run.returncode:
        raise Failed(f"headway bench: {run.stderr.strip()[-300:]}")
    return json.loads(run.stdout)[f"decode{depth}"]


def scenario_kv(o, report):
    if not has_flag(o, "--kv ", "bench"):
        raise Failed("this build's bench has no --kv")
    depth = 1000 if o.quick else 8000
    rates = {kv: [] for kv in ("f16", "q8", "q4")}
    for _ in range(1 if o.quick else o.runs):
        for kv in rates:
            rates[kv].append(decode_rate(o, kv, depth))
    report.note("; ".join(f"{kv}: {median(r):.1f} tok/s" for kv, r in rates.items()), **rates)
    for kv, wanted in (("q8", 1.3), ("q4", 1.6)):
        ratio = median(rates[kv]) / median(rates["f16"])
        report.check(f"decode at depth {depth}: {kv} by f16", f">= {wanted}", ratio, ratio >= wanted)
