"""What the scenarios of bench_cache.py share: questions and answers, conversations, what an ideal cache would find,
models of random weights, tiers. Standard library only."""

import contextlib, http.client, json, os, shutil, subprocess, tempfile, threading, time

from cadence_client import *

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = os.path.join(HERE, "..", "tests", "data", "configs")
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"

# ---- questions and answers ----


def ask(server, body, path=CHAT, timeout=300):
    """Not streamed. -> the answer"""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        data = r.read()
    finally:
        c.close()
    if r.status != 200:
        raise Failed(f"{path} answered {r.status}: {data[:300]!r}")
    return json.loads(data)


def turn(messages, tokens=16, **more):
    return {"messages": messages, "max_tokens": tokens, "temperature": 0, **more}


def streamed(server, messages, tokens=8, timeout=600, **more):
    """-> the ended stream, which has `usage` and ttft_ms()"""
    body = turn(messages, tokens, stream=True, ignore_eos=True, skip_special_tokens=False,
                stream_options={"include_usage": True}, **more)
    stream = server.reader.post(body, keep=True)
    if not stream.done.wait(timeout) or not stream.ok() or not stream.times or not stream.usage:
        raise Failed(f"a turn failed: status {stream.status} {stream.text[:300]!r}")
    return stream


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def text_of(stream):
    """What a streamed answer (kept) said."""
    events = [json.loads(e) for e in re.findall(rb"^data: (\{.*\})\r?$", stream.text, re.MULTILINE)]
    choices = [c for e in events for c in e.get("choices", [])]
    return "".join((c.get("delta") or {}).get("content") or "" for c in choices)


def said_of(answer):
    """An answer down to the bits of its log-probabilities."""
    choice = answer["choices"][0]
    return json.dumps([choice["message"]["content"], choice["finish_reason"], choice.get("logprobs")])


def places_of(answer):
    """-> {"ram": tokens, "disk": tokens ...}"""
    return answer.get("headway_cache", {}).get("hits", {})


def cache_state(server):
    return json.loads(fetch(server.port, "/debug/state")[1])["cache"]


def forget(server):
    status, body = fetch(server.port, "/v1/cache?all=1", timeout=120, method="DELETE")
    if status != 200:
        raise Failed(f"DELETE /v1/cache answered {status}: {body[:200]!r}")


# ---- texts ----


class Writer:
    """Random text of about so many tokens of the server's model, and what a prompt is in tokens."""

    def __init__(self, server, rng):
        self.server, self.rng, self.word_tokens = server, rng, 1.0
        self.word_tokens = len(self.tokens(content=self.text(400))) / 400

    def text(self, tokens):
        return words(self.rng, max(1, round(tokens / self.word_tokens)))

    def tokens(self, **body):
        return ask(self.server, body, "/tokenize")["tokens"]

    def prompt(self, messages, generate=True):
        return self.tokens(messages=messages, add_generation_prompt=generate)

    def talk(self, tokens, turns=8):
        """A conversation of about so many tokens with an answer after each of its questions."""
        share = tokens / (2 * turns + 1)
        messages = [{"role": "system", "content": self.text(share - 6)}]
        for _ in range(turns):
            messages += [{"role": "user", "content": self.text(share - 6)},
                         {"role": "assistant", "content": self.text(share - 6)}]
        return messages

    def question(self, tokens=14):
        return {"role": "user", "content": self.text(tokens)}


def common(a, b):
    """How many leading tokens are the same."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Ideal:
    """What a cache without limits would have: all that was computed so far. Any thread."""

    def __init__(self):
        self.past, self.lock = [], threading.Lock()

    def finds(self, tokens):
        with self.lock:
            past = list(self.past)
        return min(len(tokens) - 1, max((common(tokens, p) for p in past), default=0))

    def add(self, tokens):
        with self.lock:
            self.past.append(tokens)


# ---- models, tiers ----


def has_flag(o, flag, command="serve"):
    said = subprocess.run([o.headway, command, "--help"], capture_output=True, text=True)
    return flag in said.stdout + said.stderr


def synth(o, config, out, kind="bf16", tokenizer=None):
    run = subprocess.run([o.headway, "synth", "--config", config, "--out", out, "--type", kind,
                          *(["--tokenizer", tokenizer] if tokenizer else [])], capture_output=True, text=True)
    if run.returncode:
        raise Failed(f"headway synth: {run.stderr.strip()[-300:]}")
    return out


def tiny(o, folder, name="tiny_qwen3_5", context=16384):
    """A model of random weights in a small shape, with a longer context than its configuration has."""
    with open(os.path.join(CONFIGS, name + ".json")) as f:
        config = json.load(f)
    config.get("text_config", config)["max_position_embeddings"] = context
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as f:
        json.dump(config, f)
    model = os.path.join(folder, name + ".gguf")
    return model if os.path.exists(model) else synth(o, path, model, "f32")


def big(o, name, kind="mxfp4"):
    """A large one is made once, into the cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(home, "headway", "bench")
    os.makedirs(folder, exist_ok=True)
    tokenizer = o.tokenizer if hasattr(o, "tokenizer") else None
    path = os.path.join(folder, f"{name}.{kind}{'.tokenizer' if tokenizer else ''}.gguf")
    if not os.path.exists(path):
        synth(o, os.path.join(CONFIGS, name + ".json"), path, kind, tokenizer)
    return path


def wait_stored(server, timeout=60):
    """Until the tiers have taken what waits for them: their counters stand still for half a second."""
    end, before, since = time.monotonic() + timeout, None, time.monotonic()
    while time.monotonic() < end:
        m = server.metrics()
        now = [v for k, v in sorted(m.items()) if k[0] == "headway_cache_tier_stored_pages_total"]
        if not now:
            raise Failed("the server has no tier")
        if now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() > since + 0.5:
            return sum(now)
        time.sleep(0.05)
    raise Failed("the tiers do not come to rest")


def tier_total(server, name):
    return sum(v for k, v in server.metrics().items() if k[0] == f"headway_cache_tier_{name}")


def drop_page_cache():
    """Whether it could."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
        return True
    except OSError:
        return False


@contextlib.contextmanager
def folder(where=None):
    path = tempfile.mkdtemp(prefix="headway-cache-", dir=where)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def small_disk(size="8m"):
    """A file system of its own that fills up quickly. -> its folder, or None where it cannot be mounted"""
    with folder() as path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", path],
                              capture_output=True)
        if done.returncode:
            yield None
            return
        try:
            yield path
        finally:
            subprocess.run(["umount", "-l", path], capture_output=True)


@contextlib.contextmanager
def redis():
    """A Redis server of our own. -> its URL, or None where it is not installed"""
    program = shutil.which("redis-server")
    if not program:
        yield None
        return
    with folder() as path:
        port = free_port()
        process = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", path],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def kill_now(server):
    """SIGKILL, amid whatever it does."""
    for stream in list(server.reader.streams.values()):
        stream.on_done = None
    if server.process.poll() is not None:
        raise Failed(f"the server died by itself with code {server.process.returncode}: {server.said()}")
    server.process.kill()
    server.process.wait()
    server.reader.stop()
