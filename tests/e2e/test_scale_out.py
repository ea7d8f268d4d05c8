"""More than one box, on one: two servers that share a Redis, and vllm-router in front of them (docs/scale-out.md)."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import httpx
import pytest

from conftest import PATIENCE_S, Server, free_ports
from test_cache import MODEL, needs_model, words

SIM = "sim:reply_tokens=20,decode_base_us=200,prefill_tokens_per_s=20000"


class Redis:
    def __init__(self):
        self.port, = free_ports(1)
        self.url = f"redis://:s%65cret@127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--requirepass", "secret"],
            stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.count()
            except (OSError, IndexError, ValueError):
                assert time.monotonic() < deadline and self.process.poll() is None
                time.sleep(0.02)

    def count(self):
        """Its keys: records and a set for each space."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(b"AUTH secret\r\nDBSIZE\r\nQUIT\r\n")
            return int(b"".join(iter(lambda: s.recv(4096), b"")).split(b"\r\n")[1][1:])

    def settled(self, least=2):
        """Waits until nothing more comes."""
        before, deadline = -1, time.monotonic() + PATIENCE_S
        while before < least or self.count() != before:
            assert time.monotonic() < deadline, f"{before} keys"
            before = self.count()
            time.sleep(0.3)
        return before

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis():
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    r = Redis()
    yield r
    r.kill()


@pytest.fixture(params=["sim", "model"])
def pair(request, redis, serve):
    needs_model(request.param)
    flags = ["--runner", SIM] if request.param == "sim" else ["--model", MODEL, "--ctx", "2048", "--kv-memory", "256M"]
    return [serve(*flags, "--cache-redis", redis.url) for _ in range(2)]


def turn(server, text, **fields):
    answer = server.chat(text, max_tokens=8, temperature=0, **fields)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
    said, size = body["choices"][0]["message"]["content"], body["usage"]["prompt_tokens"]
    return said, cached, body["headway_cache"]["hits"], size


def test_a_session_continues_warm_on_the_other_server(redis, pair):
    text = words("session", 150)
    cold, cached, _, size = turn(pair[0], text)
    assert cached == 0
    redis.settled()
    again, cached, hits, _ = turn(pair[1], text)
    assert again == cold
    assert cached > size - 64 and hits == {"redis": cached}
    _, cached, hits, size = turn(pair[1], text + " and one more question, longer than the one before")
    assert cached > size - 96 and set(hits) == {"ram"}
    assert not any("secret" in line for server in pair for line in server.log)


def test_tenants_share_between_servers_only_with_themselves(redis, serve, tmp_path):
    path = tmp_path / "tenants.ini"
    path.write_text("[tenant a]\nkey = key-a\n[tenant b]\nkey = key-b\n")
    path.chmod(0o600)
    pair = [serve("--runner", SIM, "--cache-redis", redis.url, "--config", path) for _ in range(2)]
    text = words("tenants", 150)
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
    found = []
    for server, key in ((pair[0], "a"), (pair[1], "b"), (pair[1], "a")):
        answer = server.post("/v1/chat/completions", body, headers={"Authorization": f"Bearer key-{key}"}).json()
        found.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0)
        redis.settled()
    assert found == [False, False, True]


def test_without_redis_both_go_on_and_find_it_again(redis, serve):
    pair = [serve("--runner", SIM, "--cache-redis", redis.url) for _ in range(2)]
    turn(pair[0], words("before", 100))
    redis.settled()
    redis.kill()
    for n in range(4):
        started = time.monotonic()
        _, cached, _, _ = turn(pair[1], words("before", 100) if n == 0 else words(f"away {n}", 100))
        assert cached == 0 and time.monotonic() - started < 5
    redis.start()
    deadline, hits = time.monotonic() + PATIENCE_S, {}
    n = 0
    while "redis" not in hits:
        assert time.monotonic() < deadline
        turn(pair[0], words(f"back {n}", 100))
        time.sleep(0.5)
        _, _, hits, _ = turn(pair[1], words(f"back {n}", 100))
        n += 1


def test_forgetting_takes_the_records_from_redis(redis, serve):
    pair = [serve("--runner", SIM, "--cache-redis", redis.url) for _ in range(2)]
    text = words("forget", 150)
    turn(pair[0], text)
    assert redis.settled() > 2
    assert pair[0].http.delete("/v1/cache").status_code == 200
    assert redis.count() == 0
    assert turn(pair[1], text)[1] == 0


# ---- vllm-router ----


@pytest.fixture
def router():
    python = os.environ.get("HEADWAY_ROUTER_PYTHON")
    if not python:
        pytest.skip("HEADWAY_ROUTER_PYTHON is not set: make test-clients")
    running = []

    def start(*workers):
        port, metrics = free_ports(2)
        running.append(subprocess.Popen(
            [pathlib.Path(python).parent / "vllm-router", "--port", str(port), "--prometheus-port", str(metrics),
             "--policy", "cache_aware", "--health-check-interval-secs", "1", "--health-failure-threshold", "1",
             "--cb-failure-threshold", "1", "--worker-urls", *[w.url for w in workers]],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if client.get("/health").status_code == 200:
                    return client
            except httpx.TransportError:
                pass
            assert running[-1].poll() is None, "vllm-router ended"
            assert time.monotonic() < deadline
            time.sleep(0.2)

    yield start
    for process in running:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def ask(client, messages):
    deadline = time.monotonic() + PATIENCE_S
    while True:  # the router answers 500 until it has seen that a server is gone; clients try again
        answer = client.post("/v1/chat/completions", json={"model": "any", "messages": messages, "max_tokens": 8})
        if answer.status_code < 500 or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    messages.append({"role": "assistant", "content": body["choices"][0]["message"]["content"]})
    return body["headway_cache"]["hits"]


@pytest.mark.clients
def test_sessions_stay_where_they_are_warm_and_survive_their_server(redis, router):
    pair = [Server("--runner", SIM, "--cache-redis", redis.url) for _ in range(2)]
    try:
        client = router(*pair)
        sessions = [[{"role": "user", "content": words(f"session {n}", 150)}] for n in range(8)]
        for turn_number in range(3):
            for messages in sessions:
                hits = ask(client, messages)
                assert set(hits) == ({"ram"} if turn_number else set()), hits  # the router sends it where it was
                messages.append({"role": "user", "content": words(f"turn {turn_number}", 20)})
        redis.settled()
        served = [server.metric("vllm:prompt_tokens_total") for server in pair]
        dead = 0 if served[0] > served[1] else 1  # one that has some of them
        pair[dead].process.kill()
        pair[dead].process.wait()
        warm = 0
        for messages in sessions:
            hits = ask(client, messages)
            warm += bool(hits)
        assert warm == len(sessions)  # those that lived there too: from Redis
        assert pair[1 - dead].metric("vllm:request_success_total") >= len(sessions)
    finally:
        for server in pair:
            server.http.close()
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGINT)
            server.process.wait(PATIENCE_S)
