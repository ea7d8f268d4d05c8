"""Scenarios of bench_cadence.py: what the server promises beyond two tenants: its model of time, fairness, refusals,
aborts, overload. Each takes the options and a report."""

import heapq, json, socket, threading, time
from cadence_bars import Chat, document_body, documents, flags_of, solo_itl_ms, warm
from cadence_client import *

KINDS = ("decode", "prefill", "fused")


class Again:
    """One request after the other, each made by `body()`; `seen` gets each that ended."""

    def __init__(self, server, body, key=None, seen=None):
        self.server, self.body, self.key, self.seen = server, body, key, seen
        self.stopped, self.ended, self.live = False, 0, None
        self.post()

    def post(self):
        self.live = self.server.reader.post(self.body(), key=self.key, on_done=self.go_on)

    def go_on(self, stream):
        if self.seen:
            self.seen(stream)
        if stream.ok():
            self.ended += 1
            if not self.stopped:
                self.post()

    def stop(self):
        self.stopped = True
        self.live.abort()
        if not self.live.done.wait(20):
            raise Failed("a request does not end after its abort")


# ---- the step model ----


def scenario_model(o, report):
    rng, seconds = rng_of(o, "model"), 10 if o.quick else 90
    with Server(o, flags_of(o)) as server:
        warm(server, rng)
        with Canary() as canary:
            talk = [Chat(server, rng_of(o, "model", i), rng.randint(80, 500)) for i in range(2)]
            end, reading = time.monotonic() + seconds, []
            while time.monotonic() < end:
                time.sleep(rng.uniform(0.1, 1.2))
                reading = [s for s in reading if not s.closed]
                if len(talk) < 4 and rng.random() < 0.1:
                    talk.append(Chat(server, rng, rng.randint(80, 500)))
                size = int(rng.choice((10, 40, 150, 600, o.words, o.words * 1.5)))
                if len(reading) < 4:
                    reading.append(server.reader.post(document_body(rng, size, rng.choice((1, 20, 60)))))
            for s in (*reading, *(c.streams[-1] for c in talk)):
                s.on_done = None
                s.abort()
        state = json.loads(fetch(server.port, "/debug/state")[1])["step_model"]
        metrics = server.metrics()
        for kind in KINDS:
            error = [metrics.get(("headway_step_model_error_ratio", (("kind", kind), ("quantile", q))), float("nan"))
                     for q in ("0.5", "0.95-under")]
            if state[kind]["steps"] < 20:
                report.note(f"{kind}: {state[kind]['steps']} steps, too few to judge")
                continue
            report.check(f"{kind}: median absolute error of {state[kind]['steps']} steps", "<= 0.1", error[0],
                         error[0] <= 0.1, canary)
            report.check(f"{kind}: p95 of the under-prediction", "<= 0.25", error[1], error[1] <= 0.25, canary)


# ---- fairness ----

FAIR = """[tenant large]
key = fair-large-key
weight = 2
class = {0}
[tenant small]
key = fair-small-key
class = {0}
"""


def idle_of(steps):
    """-> (part of the time between first and last step without a step, the largest such hole in ms)"""
    spans = sorted((s["start"], s["start"] + s["duration"]) for s in steps)
    holes = [max(0, b[0] - a[1]) for a, b in zip(spans, spans[1:])]
    return sum(holes) / (spans[-1][1] - spans[0][0]), max(holes) / 1e3


def fair_run(o, report, klass, seconds):
    with Server(o, flags_of(o), config=FAIR.format(klass), key="fair-large-key") as server:
        work = []
        for name in ("large", "small"):
            for i in range(4):
                rng = rng_of(o, "fairness", name, i)
                body = lambda rng=rng: document_body(rng, rng.randint(o.words // 4, o.words), 8)
                work.append(Again(server, body, key=f"fair-{name}-key"))
        time.sleep(1 if o.quick else 15)  # until what the first chunk brought one of them is paid back
        device = lambda m: [m["headway_tenant_device_seconds_total", (("tenant", n),)] for n in ("large", "small")]
        trace, before, begin = Trace(server), device(server.metrics()), time.monotonic()
        with Canary() as canary:
            while time.monotonic() < begin + seconds:
                time.sleep(min(5, seconds / 2))
                trace.read()
            after = device(server.metrics())
        served = [sum(w.ended for w in work[i:i + 4]) for i in (0, 4)]
        for w in work:
            w.stop()
        large, small = (b - a for a, b in zip(before, after))
        idle, hole = idle_of(trace.steps)
        report.note(f"{klass}: device time {large:.2f} and {small:.2f} s, {served} documents; {len(trace.steps)} "
                    f"steps, largest hole between two {hole:.1f} ms, {trace.lost} records lost")
        ratio = large / small if small else float("inf")
        report.check(f"{klass}: device time of weights 2:1 over {seconds:.0f} s", "1.9 to 2.1", ratio,
                     1.9 <= ratio <= 2.1, canary)
        report.check(f"{klass}: part of the time without a step", "<= 0.01", idle, idle <= 0.01, canary)


def scenario_fairness(o, report):
    for klass in ("interactive", "batch"):
        fair_run(o, report, klass, 10 if o.quick else 60)


# ---- refusals ----


def probe(port, key=None):
    """One request on a connection of its own -> (status, ms from its last byte to the first byte of the answer)"""
    body = json.dumps({"prompt": "hello", "max_tokens": 1}).encode()
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        head = "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nConnection: close\r\n"
        s.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        sent = now_ns()
        answer = s.recv(4096)
        return int(answer[9:12]), (now_ns() - sent) / 1e6, b"equest-dropped-reason" in answer


def histogram_bound(before, after, name, p):
    """The upper edge of the bucket that holds quantile p of what was counted between two readings."""
    rows = []
    for (n, labels), value in after.items():
        if n == name + "_bucket":
            rows.append((float(dict(labels)["le"]), value - before.get((n, labels), 0)))
    rows.sort()
    total = rows[-1][1] if rows else 0
    return next((edge for edge, count in rows if total and count >= p * total), float("nan")), int(total)


def scenario_refusal(o, report):
    rng, wanted = rng_of(o, "refusal"), 50 if o.quick else 500
    config = "[tenant default]\nconcurrent = 2\nqueued = 2\n"
    with Server(o, flags_of(o), config=config) as server:
        warm(server, rng)
        work = []
        def fill():
            work[:] = [s for s in work if not s.closed]
            while len(work) < 4:
                work.append(server.reader.post(document_body(rng, 6000, 1)))
        fill()
        time.sleep(0.5)
        before, times, accepted, unnamed = server.metrics(), [], 0, 0
        with Canary() as canary:
            cpu, begin = server.cpu_seconds(), time.monotonic()
            end = begin + 240
            while len(times) < wanted and time.monotonic() < end:
                status, ms, named = probe(server.port)
                if status in (429, 503):
                    times.append(ms)
                    unnamed += not named
                else:
                    accepted += 1
                fill()
                time.sleep(rng.uniform(0.002, 0.03))
            cores = (server.cpu_seconds() - cpu) / (time.monotonic() - begin)
        after = server.metrics()
        bound, counted = histogram_bound(before, after, "headway_refusal_seconds", 0.99)
        name = "headway_refusal_seconds_"
        mean = (after[name + "sum", ()] - before[name + "sum", ()]) / max(1, counted)
        report.note(f"{len(times)} refused, {accepted} accepted; the server used {cores:.2f} cores meanwhile; "
                    f"server clock: mean {mean * 1e3:.3f} ms of {counted}; client: median {median(times):.2f}, worst "
                    f"{max(times):.1f} ms", cores=cores)
        report.check("server clock: p99 of refusals is at most, ms", "<= 5", bound * 1e3,
                     bound <= 0.005 and counted >= len(times), canary)
        report.check("client: p99 from the last body byte, ms", "(<= 5)", quantile(times, 0.99),
                     quantile(times, 0.99) <= 5, canary)
        report.check("refusals without a machine-readable reason", "0", unnamed, unnamed == 0)


# ---- aborts ----


class Mixed:
    """Chats and documents, `live` at once. `abort_s`: each is given up after a random time of that mean; 0: none is."""

    def __init__(self, o, server, rng, live, abort_s, words_most):
        self.server, self.rng, self.live, self.abort_s = server, rng, live, abort_s
        self.text = words(rng, 20 * words_most).split(" ")
        self.words_most, self.streams, self.due = words_most, set(), []
        self.started = self.aborted = self.refused = 0

    def body(self):
        rng = self.rng
        document = rng.random() < 0.3
        count = rng.randint(self.words_most // 5, self.words_most) if document else rng.randint(5, 60)
        at = rng.randrange(len(self.text) - count)
        text = f"{rng.random()} {' '.join(self.text[at:at + count])}"
        return {"messages": [{"role": "user", "content": text}], "max_tokens": rng.randint(1, 150), "temperature": 0,
                "stream": rng.random() < 0.9, "ignore_eos": True, **({"service_tier": "flex"} if document else {})}

    def post(self):
        stream = self.server.reader.post(self.body())
        self.streams.add(stream)
        self.started += 1
        if self.abort_s:
            heapq.heappush(self.due, (time.monotonic() + self.rng.expovariate(1 / self.abort_s), self.started, stream))

    def run(self, until):
        """Until `until()`."""
        while not until():
            for s in [s for s in self.streams if s.closed]:
                self.streams.discard(s)
                self.refused += s.status in (429, 503)
            while len(self.streams) < self.live:
                self.post()
            now = time.monotonic()
            while self.due and self.due[0][0] <= now:
                stream = heapq.heappop(self.due)[2]
                if not stream.closed:
                    self.aborted += 1
                    stream.abort(reset=self.rng.random() < 0.5)
            time.sleep(0.002 if self.abort_s else 0.01)

    def stop(self):
        for s in self.streams:
            s.abort(reset=True)


def watched_gaps(server, rng, mixed, until):
    """Gaps of a stream beside the load, ms."""
    chat = Chat(server, rng, 2000)
    chat.wait_tokens(5)
    begin = now_ns()
    mixed.run(until)
    end = now_ns()
    return chat, chat.gaps(begin, end)


def reclaimed(server, timeout=20):
    """Waits for all pages to be free -> (pages not free, ms until they were)"""
    begin, held = time.monotonic(), 1
    while held and time.monotonic() < begin + timeout:
        m = server.metrics()
        held = m["headway:pages", ()] - m["headway:pages_free", ()]
    return int(held), (time.monotonic() - begin) * 1e3


def cancel_run(o, report, name, arguments, count, live, abort_s, words_most, seconds):
    rng = rng_of(o, "cancel", name)
    with Server(o, arguments) as server:
        warm(server, rng)
        calm = Mixed(o, server, rng, live, 0, words_most)
        end = time.monotonic() + seconds
        with Canary() as canary:
            chat, without = watched_gaps(server, rng, calm, lambda: time.monotonic() > end)
        hole = canary.hole_ms
        calm.stop()
        chat.stop()
        if not server.idle(60):
            raise Failed("the server does not come to rest after the load without aborts")
        wild, trace = Mixed(o, server, rng, live, abort_s, words_most), Trace(server)
        end = time.monotonic() + 600
        with Canary() as canary:
            chat, beside = watched_gaps(server, rng, wild, lambda: wild.aborted >= count or time.monotonic() > end)
            chat.stopped = True
            wild.stop()
            chat.streams[-1].abort()
            held, took = reclaimed(server)
        steps = trace.read().steps
        step = max((s["duration"] for s in steps[-200:]), default=0) / 1e3
        report.note(f"{name}: {wild.aborted} of {wild.started} aborted, {wild.refused} refused; gaps without: p50 "
                    f"{median(without):.1f} p99 {quantile(without, 0.99):.1f} worst {max(without):.1f} ms of "
                    f"{len(without)} (hole {hole:.1f}), with: p50 {median(beside):.1f} p99 "
                    f"{quantile(beside, 0.99):.1f} worst {max(beside):.1f} ms of {len(beside)}; after the last "
                    f"{live}: {took:.0f} ms, longest late step {step:.0f} ms")
        report.check(f"{name}: aborts", str(count), wild.aborted, wild.aborted >= count)
        report.check(f"{name}: pages not free afterwards", "0", held, held == 0)
        report.check(f"{name}: all free after, ms (longest step and 20)", f"<= {step + 20:.0f}", took,
                     took <= step + 20, canary)
        a, b = quantile(without, 0.99), quantile(beside, 0.99)
        report.check(f"{name}: p99 gap of a watched stream, with by without", "<= 1.1", b / a, b <= 1.1 * a, canary)


def scenario_cancel(o, report):
    sim = ["--runner", "sim", "--gap-ms", "50"]
    cancel_run(o, report, "sim", sim, 300 if o.quick else 10000, 24, 0.06, 1000, 3 if o.quick else 20)
    cancel_run(o, report, "model", flags_of(o), 20 if o.quick else 400, 8, 0.4, 1500, 5 if o.quick else 40)


# ---- overload ----


class Arrivals:
    """Requests that come by the clock, whatever became of those before. Four of five are short chats, the others
    batch documents."""

    def __init__(self, o, server, rng):
        self.o, self.server, self.rng, self.lock = o, server, rng, threading.Lock()
        self.live, self.gaps, self.firsts = set(), [], []
        self.sent = self.served = self.refused = self.broken = self.chats = self.over = self.unnamed = 0

    def body(self):
        if self.rng.random() < 0.2:
            return document_body(self.rng, self.o.words // 4, 16, service_tier="flex")
        return chat_body(self.rng, 64, 20)

    def post(self, on_done=None):
        body = self.body()
        chat = "service_tier" not in body
        self.sent += 1
        stream = self.server.reader.post(body, on_done=lambda s: (self.seen(s, chat), on_done and on_done()))
        with self.lock:
            if not stream.closed:
                self.live.add(stream)

    def seen(self, stream, chat):
        with self.lock:
            self.live.discard(stream)
        if stream.status in (429, 503):
            self.refused += 1
            self.unnamed += b'"code"' not in stream.text
        elif stream.ok() and stream.times:
            self.served += 1
            if chat:
                gaps = gaps_ms(stream.times)
                self.chats += 1
                self.gaps += gaps
                self.firsts.append(stream.ttft_ms())
        elif not stream.aborted:
            self.broken += 1

    def abort_all(self):
        with self.lock:
            live = list(self.live)
        for s in live:
            s.abort()


def sustainable(o, server, rng, seconds):
    """Requests per second of a closed loop that keeps the device busy."""
    load, stopped = Arrivals(o, server, rng), []
    def more():
        if not stopped:
            load.post(more)
    for _ in range(4):
        more()
    time.sleep(seconds / 4)
    before, begin = load.served, time.monotonic()
    time.sleep(seconds)
    rate = (load.served - before) / (time.monotonic() - begin)
    stopped.append(True)
    load.abort_all()
    server.idle(60)
    return rate


def flood(server, load, rng, rate, seconds):
    """-> resident bytes, each second"""
    begin = time.monotonic()
    due, sampled, sizes = begin, begin, []
    while time.monotonic() < begin + seconds:
        due += rng.expovariate(rate)
        now = time.monotonic()
        if due > now:
            time.sleep(due - now)
        load.post()
        if now > sampled + 1:
            sampled = now
            sizes.append(server.memory())
    return sizes


def violations_of(metrics):
    over = sum(v for (n, _), v in metrics.items() if n == "headway_gap_violations_total")
    return metrics["headway_gaps_total", ()], over


def scenario_overload(o, report):
    rng, seconds = rng_of(o, "overload"), o.overload_seconds
    with Server(o, flags_of(o, "--gap-ms", "50"), config="[tenant default]\nqueued = 32\n") as server:
        warm(server, rng)
        calm = median(solo_itl_ms(server, rng, 200))
        rate = sustainable(o, server, rng, 4 if o.quick else 20)
        if rate <= 0:
            raise Failed("no request was served while the sustainable load was measured")
        load, before = Arrivals(o, server, rng), server.metrics()
        with Canary() as canary:
            sizes = flood(server, load, rng, 10 * rate, seconds)
        after, end = server.metrics(), time.monotonic()
        rested = server.idle(120)
        rest_s = time.monotonic() - end
        gaps, over = (b - a for a, b in zip(violations_of(before), violations_of(after)))
        held, _ = reclaimed(server)
        again = median(solo_itl_ms(server, rng, 200))
        report.note(f"{rate:.1f} requests/s are sustainable; {load.sent} sent in {seconds:.0f} s, {load.served} "
                    f"served, {load.refused} refused, {load.broken} broken; chats' TTFT median "
                    f"{median(load.firsts):.0f} ms; gaps p50 {median(load.gaps):.1f} p99 "
                    f"{quantile(load.gaps, 0.99):.1f} worst {max(load.gaps, default=0):.0f} ms", resident=sizes)
        report.note(f"server counts {over:.0f} of {gaps:.0f} gaps over; at rest after {rest_s:.1f} s")
        p99 = quantile(load.gaps, 0.99)
        report.check(f"accepted chats ({load.chats}): p99 gap at --gap-ms 50, ms", "<= 50", p99, p99 <= 50, canary)
        report.check("server clock: part of gaps over the bound", "<= 0.01", over / max(1, gaps), over <= 0.01 * gaps,
                     canary)
        report.check("answers that broke, neither refused nor finished", "0", load.broken, load.broken == 0)
        report.check("refusals without a machine-readable reason", "0", load.unnamed, load.unnamed == 0)
        half = len(sizes) // 2
        growth = max(sizes[half:]) / max(sizes[:half]) if half else float("nan")
        report.check(f"resident memory ({max(sizes, default=0) / 1e6:.0f} MB): second half by first", "<= 1.05", growth,
                     growth <= 1.05)
        report.check("recovery: at rest, pages not free", "0", held, rested and held == 0)
        report.check("recovery: solo ITL afterwards by before", "<= 1.1", again / calm, again <= 1.1 * calm, canary)
