"""What the scenarios of bench_cadence.py share: a server of its own, streams read by one thread, a canary, numbers.

One thread reads all streams (epoll) and notes time.perf_counter_ns for each token; it is CLOCK_MONOTONIC, the clock of
the server's traces. Standard library only, little work for each token: the server needs both cores.
"""

import json, os, random, re, select, signal, socket, struct, subprocess, sys, tempfile, threading, time

WORDS = """time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour
game line end member law car city community name team minute idea body information back parent face others level office
door health person art war history party result change morning reason research girl guy moment air teacher""".split()
now_ns = time.perf_counter_ns


def words(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count))


def quantile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(p * len(ordered)))] if ordered else float("nan")


def median(values):
    return quantile(values, 0.5)


# ---- streams ----


class Stream:
    """One request. times: of each token; sent: when its last byte was given to the kernel."""

    def __init__(self, sock, on_done=None):
        self.sock, self.on_done = sock, on_done
        self.sent = self.first_byte = self.ended = 0
        self.times, self.status, self.text, self.usage = [], 0, b"", None
        self.keep = False  # the events of a good answer stay in `text`
        self.head_done = self.aborted = self.closed = False
        self.rest, self.wake_at = b"", 0
        self.wake, self.done = threading.Event(), threading.Event()

    def ok(self):
        return self.status == 200 and not self.aborted

    def wait_tokens(self, count, timeout):
        """Whether `count` tokens came before the timeout or the end."""
        self.wake.clear()
        self.wake_at = count
        if len(self.times) < count and not self.closed:
            self.wake.wait(timeout)
        return len(self.times) >= count

    def abort(self, reset=False):
        self.aborted = True
        try:
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def ttft_ms(self):
        return (self.times[0] - self.sent) / 1e6 if self.times else float("nan")

    def take(self, data, at):
        """Bytes that arrived; -> whether the answer has ended."""
        if not self.first_byte:
            self.first_byte = at
        data = self.rest + data
        if not self.head_done:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.rest = data
                return False
            self.status, self.head_done = int(data[9:12]), True
            data = data[end + 4:]
        if self.status != 200:
            self.text += data
            self.rest = b""
            return data.rstrip().endswith(b"}")
        cut = data.rfind(b"\n\n") + 2
        if cut < 2:
            self.rest = data
            return False
        events, self.rest = data[:cut], data[cut:]
        if self.keep:
            self.text += events
        count = events.count(b'"content":"') + events.count(b'"text":"')
        count -= events.count(b'"content":""') + events.count(b'"text":""')
        if count:
            self.times.extend([at] * count)
            if self.wake_at and len(self.times) >= self.wake_at:
                self.wake.set()
        if b'"usage":{' in events:
            found = re.findall(rb'"(prompt_tokens|completion_tokens|cached_tokens)":(\d+)', events)
            self.usage = {k.decode(): int(v) for k, v in found}
        return b"data: [DONE]" in events


class Reader(threading.Thread):
    """Reads all streams of one server."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.epoll, self.streams, self.stopped = port, select.epoll(), {}, False
        self.start()

    def run(self):
        while not self.stopped:
            for fd, _ in self.epoll.poll(0.2):
                stream = self.streams.get(fd)
                if stream:
                    self.read(fd, stream)

    def read(self, fd, stream):
        try:
            data = stream.sock.recv(262144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        at = now_ns()
        if data and not stream.take(data, at):
            return
        self.epoll.unregister(fd)
        del self.streams[fd]
        stream.sock.close()
        stream.ended, stream.closed = at, True
        stream.done.set()
        stream.wake.set()
        if stream.on_done:
            stream.on_done(stream)

    def post(self, body, path="/v1/chat/completions", key=None, on_done=None, keep=False):
        data = json.dumps(body).encode()
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = Stream(sock, on_done)
        stream.keep = keep
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {key}\r\n" if key else ""
        sock.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        stream.sent = now_ns()
        sock.setblocking(False)
        self.streams[sock.fileno()] = stream
        self.epoll.register(sock.fileno(), select.EPOLLIN)
        return stream

    def stop(self):
        for stream in list(self.streams.values()):
            stream.on_done = None
            stream.abort()
        self.stopped = True
        self.join(5)


def chat_body(rng, tokens, prompt_words=20, begin="Tell a very long story. ", **more):
    # Control tokens are written out, so that every token has an event.
    return {"messages": [{"role": "user", "content": begin + words(rng, prompt_words)}], "max_tokens": tokens,
            "stream": True, "temperature": 0, "ignore_eos": True, "skip_special_tokens": False, "cache_prompt": False,
            "stream_options": {"include_usage": True}, **more}


def document_body(rng, count, tokens=1, **more):
    return chat_body(rng, tokens, count, "Read this: ", **more)


def gaps_ms(times, begin=0, end=1 << 63):
    """Of tokens of one stream: the gaps that touch [begin, end]."""
    return [(b - a) / 1e6 for a, b in zip(times, times[1:]) if b > begin and a < end]


# ---- the server ----


def free_port():
    """Below those that the system deals out, so that nobody gets it in between."""
    for port in random.SystemRandom().sample(range(10000, 32000), 100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise OSError("no free port")


def fetch(port, path, timeout=30, method="GET"):
    """-> (status, body)"""
    with socket.create_connection(("127.0.0.1", port), timeout) as s:
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n{fetch.key}\r\n".encode())
        data = b"".join(iter(lambda: s.recv(262144), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head[9:12]), body


fetch.key = ""


class Failed(Exception):
    """A scenario that cannot go on; the text says why."""


class Server:
    """A process of its own on a free port, or (options.port) one that runs already."""

    def __init__(self, options, arguments, config=None, program=None, key=None):
        self.process, self.config, self.command, self.foreign = None, None, None, bool(program)
        fetch.key = f"Authorization: Bearer {key}\r\n" if key else ""
        self.log = tempfile.TemporaryFile("a+b")
        self.port = options.port or free_port()
        if not options.port:
            if config:
                with tempfile.NamedTemporaryFile("w", suffix=".ini", delete=False) as f:
                    f.write(config)
                self.config = f.name
                arguments = [*arguments, "--config", f.name]
            self.command = program or [options.headway, "serve", *arguments]
            self.command += [str(self.port)] if program else ["--port", str(self.port)]
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        self.reader = Reader(self.port)

    def start(self, tries=10):
        """A busy machine can make the server measure slow steps and refuse the bound: tried again, and told."""
        if self.command:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=self.log)
        try:
            self.wait_listening(120)
        except Failed as e:
            if tries <= 1 or "smallest bound" not in str(e):
                raise
            print(f"              started again: {str(e).splitlines()[-1][:180]}", flush=True)
            self.log.truncate(0)
            time.sleep(1)
            self.start(tries - 1)

    def wait_listening(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if fetch(self.port, "/health", 5)[0] == 200:
                    return
            except (OSError, ValueError):
                pass
            if self.process and self.process.poll() is not None:
                raise Failed(f"the server ended at once: {self.said()}")
            time.sleep(0.02)
        raise Failed("the server does not listen")

    def said(self, size=600):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")[-size:].strip()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.config:
            os.unlink(self.config)
            self.config = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        crashed = self.process and self.process.poll() is not None
        self.reader.stop()
        self.kill()
        if crashed:
            raise Failed(f"the server died with code {self.process.returncode}: {self.said()}")

    def metrics(self):
        """-> {(name, (labels without model_name and engine)): value}"""
        out = {}
        for line in fetch(self.port, "/metrics")[1].decode().splitlines():
            found = re.match(r"([\w:]+)(?:\{(.*)\})? (\S+)$", line)
            if found:
                labels = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                labels = tuple(sorted(i for i in labels.items() if i[0] not in ("model_name", "engine")))
                out[found[1], labels] = float(found[3])
        return out

    def metric(self, name, **labels):
        return self.metrics().get((name, tuple(sorted(labels.items()))), float("nan"))

    def memory(self, key="VmRSS"):
        if not self.process:
            return float("nan")
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def newest(self):
        """The trace's end; a cursor beyond it is taken for that."""
        return json.loads(fetch(self.port, f"/debug/steps?since={1 << 62}")[1])["cursor"]

    def idle(self, timeout):
        """Waits until nothing runs or waits; another make's server is given a moment."""
        if self.foreign:
            time.sleep(1)
            return True
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            m = self.metrics()
            if m["vllm:num_requests_running", ()] + m["vllm:num_requests_waiting", ()] == 0:
                return True
            time.sleep(0.05)
        return False


class Trace:
    """The server's records from now on; read often enough that none is lost (16,384 are kept)."""

    def __init__(self, server):
        self.server, self.steps, self.tokens, self.moments, self.lost = server, [], [], [], 0
        self.cursor = server.newest()

    def read(self):
        more = True
        while more:
            part = json.loads(fetch(self.server.port, f"/debug/steps?since={self.cursor}")[1])
            self.cursor, more = part["cursor"], part["more"]
            self.lost += part["lost"]
            self.steps += [dict(zip(STEP_FIELDS, s)) for s in part["steps"]]
            self.tokens += [dict(zip(TOKEN_FIELDS, t)) for t in part["tokens"]]
            self.moments += part["moments"]
        return self

    def chunks(self):
        """Chunks from their runs: dicts of request, position, tokens, us (without what ran between), runs."""
        done, open_chunks = [], {}
        for s in self.steps:
            if s["kind"] == DECODE:
                continue
            c = open_chunks.setdefault(s["request"], {"request": s["request"], "position": s["position"],
                                                      "tokens": s["tokens"], "us": 0, "runs": 0})
            c["us"] += s["duration"]
            c["runs"] += 1
            if not s["flags"] & YIELDED:
                done.append(open_chunks.pop(s["request"]))
        return done


STEP_FIELDS = ("kind start duration request rows tokens position predicted bytes flags tenant part").split()
TOKEN_FIELDS = "request start duration bound flags tenant klass".split()
DECODE, PREFILL, FUSED, YIELDED = 0, 1, 2, 1

# ---- the canary ----

CANARY = """
import sys, threading, time
stop, worst, holes = threading.Event(), 0, []
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
last = time.perf_counter_ns()
while not stop.is_set():
    time.sleep(0.001)
    now = time.perf_counter_ns()
    late = now - last - 1000000
    if late > 5000000 and len(holes) < 10000:
        holes.append(late // 1000)
    worst, last = max(worst, late), now
print(worst / 1e6, len(holes))
"""


class Canary:
    """Largest holes of a thread that wakes each 1 ms: in a process of its own (`hole_ms`: the machine's), and in this
    one (`client_hole_ms`: with the client's own)."""

    def __enter__(self):
        self.hole_ms = self.client_hole_ms = float("nan")
        self.holes = 0
        self.process = subprocess.Popen([sys.executable, "-S", "-E", "-c", CANARY], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.stopped, self.worst = False, 0
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        self.before = steal_seconds()
        return self

    def watch(self):
        last = now_ns()
        while not self.stopped:
            time.sleep(0.001)
            now = now_ns()
            self.worst, last = max(self.worst, now - last - 1000000), now

    def __exit__(self, *_):
        self.stopped = True
        self.thread.join()
        self.client_hole_ms = self.worst / 1e6
        self.steal_s = steal_seconds() - self.before
        said = self.process.communicate("")[0].split()
        if len(said) == 2:  # else it was ended with us
            self.hole_ms, self.holes = float(said[0]), int(said[1])

    def facts(self):
        return {"hole_ms": round(self.hole_ms, 1), "holes_over_5_ms": self.holes,
                "client_hole_ms": round(self.client_hole_ms, 1), "steal_s": round(self.steal_s, 2)}


def steal_seconds():
    with open("/proc/stat") as f:
        fields = f.readline().split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


class Report:
    """What a scenario found: checks, printed as they come."""

    def __init__(self, name):
        self.name, self.checks, self.details = name, [], {}

    def check(self, what, wanted, measured, met, canary=None):
        if isinstance(measured, float):
            measured = float(f"{measured:.4g}")
        entry = {"what": what, "wanted": wanted, "measured": measured, "met": bool(met)}
        hole = ""
        if canary:
            entry.update(canary.facts())
            hole = f"  [hole {canary.hole_ms:.1f} ms, in the client {canary.client_hole_ms:.1f}]"
        self.checks.append(entry)
        verdict = "met" if met else "OPEN"
        print(f"{self.name:11} {what:62} wanted {wanted:>12}  measured {measured!s:>10}  {verdict}{hole}", flush=True)

    def note(self, text, **facts):
        self.details.update(facts)
        print(f"{self.name:11}   {text}", flush=True)


def rng_of(options, *salt):
    return random.Random("/".join(map(str, (options.seed, *salt))))
