#!/usr/bin/env python3
"""What a server costs and gives: start, memory, time to first token, 16 streams against one, idle connections, 1,000
streams at once.

usage: bench_serve.py HEADWAY MODEL.gguf [--llama PYTHON_WITH_XLLAMACPP] [--out FILE.json]
Standard library only. With --llama the time to first token is measured on llama.cpp's server in turn.
"""
import argparse, http.client, json, os, random, resource, signal, socket, statistics, subprocess, sys, threading, time

ap = argparse.ArgumentParser()
ap.add_argument("headway"); ap.add_argument("model"); ap.add_argument("--llama"); ap.add_argument("--out")
a = ap.parse_args()
resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
WORDS = "time year people way day man thing woman life child world school state family student group country"
WORDS = (WORDS + " problem").split()
result = {}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_listening(port, process, seconds=60):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            c.request("GET", "/health")
            if c.getresponse().status == 200:
                return
        except OSError:
            pass
        if process.poll() is not None:
            sys.exit("the server ended at once")
        time.sleep(0.005)
    sys.exit("the server does not listen")


class Server:
    def __init__(self, arguments):
        self.port = free_port()
        start = time.perf_counter()
        self.process = subprocess.Popen([*arguments, "--port", str(self.port)], stderr=subprocess.DEVNULL)
        wait_listening(self.port, self.process)
        self.start_seconds = time.perf_counter() - start

    def memory(self, key):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def stream(port, words, tokens, seed=0, path="/v1/chat/completions"):
    """-> (seconds to the first content, arrival times)"""
    rng = random.Random(seed)
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": tokens,
        "stream": True,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    start = time.perf_counter()
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    r, times = c.getresponse(), []
    if r.status != 200:
        return None, []
    for line in r:
        if line.startswith(b"data: {"):
            choice = (json.loads(line[6:]).get("choices") or [{}])[0]
            if (choice.get("delta") or {}).get("content"):
                times.append(time.perf_counter())
    c.close()
    return (times[0] - start if times else None), times


def first_token_ms(port, rounds=15):
    stream(port, 5, 2)
    return [1e3 * stream(port, 4, 2, seed)[0] for seed in range(rounds)]  # 4 words and the template: about 34 tokens


def rate(port, streams, tokens=64):
    results, begin = [None] * streams, time.perf_counter()
    def one(i):
        results[i] = stream(port, 4, tokens, i)[1]
    threads = [threading.Thread(target=one, args=(i,)) for i in range(streams)]
    for t in threads: t.start()
    for t in threads: t.join()
    return sum(len(r) for r in results) / (max(r[-1] for r in results) - begin)


def report(name, value):
    result[name] = value
    print(f"{name:36} {value:.4g}" if isinstance(value, float) else f"{name:36} {value}", flush=True)


LLAMA = """
import sys, time, xllamacpp as x
p = x.CommonParams(); p.model.path = sys.argv[1]; p.n_parallel = 4; p.n_ctx = 16384
p.cpuparams.n_threads = 2; p.port = int(sys.argv[3])
s = x.Server(p)
while True: time.sleep(1)
"""


def main():
    size = os.path.getsize(a.model)
    Server([a.headway, "serve", "--model", a.model]).stop()  # warms the page cache
    s = Server([a.headway, "serve", "--model", a.model])
    report("start_seconds", s.start_seconds)
    report("resident_of_file", s.memory("VmRSS") / size)
    report("peak_of_file", s.memory("VmHWM") / size)
    ours = first_token_ms(s.port)
    report("ttft_ms_median", statistics.median(ours))
    ones, sixteens = [], []
    for _ in range(3):
        ones.append(rate(s.port, 1))
        sixteens.append(rate(s.port, 16))
    report("stream_tokens_per_second", statistics.median(ones))
    report("streams16_tokens_per_second", statistics.median(sixteens))
    report("streams16_over_one", statistics.median(sixteens) / statistics.median(ones))
    before = s.memory("VmRSS")
    idle = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(2000)]
    for c in idle:
        c.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    for c in idle:
        c.recv(4096)
    report("idle2000_megabytes", (s.memory("VmRSS") - before) / 1e6)
    for c in idle:
        c.close()
    s.stop()
    if a.llama:
        port = free_port()
        process = subprocess.Popen(
            [a.llama, "-c", LLAMA, a.model, "-", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_listening(port, process)
        theirs = first_token_ms(port)
        process.kill()
        report("llama_ttft_ms_median", statistics.median(theirs))
        report("ttft_of_llama", statistics.median(ours) / statistics.median(theirs))
    if a.out:
        with open(a.out, "w") as f:
            json.dump(result, f, indent=1)


main()
