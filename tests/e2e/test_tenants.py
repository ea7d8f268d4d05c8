"""Tenants: whose key, which class, which limits; refusals; a config that is read again while streams run."""

import hashlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from conftest import HEADWAY, PATIENCE_S, events
from test_http import HEAD, read_answers

SLOW = "sim:reply_tokens=4000,decode_base_us=20000"
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
HASH = "sha256:" + hashlib.sha256(b"docs-key").hexdigest()
SHARED = f"""
[server]
policy = prefill-first
[tenant chat]
key = chat-key
weight = 2
[tenant docs]
key-hash = {HASH}
class = batch
concurrent = 1
queued = 1
tokens = 3000
[tenant guest]
class = batch
"""


def bearer(key, **headers):
    return {"Authorization": f"Bearer {key}", **{name.replace("_", "-"): value for name, value in headers.items()}}


class Config:
    def __init__(self, path):
        self.path = path
        self.write(SHARED)

    def write(self, text):
        self.path.write_text(text)
        os.chmod(self.path, 0o600)

    def reload(self, server, text, says):
        """Writes, signals, and waits until the log holds `says`."""
        seen = len(server.log)
        self.write(text)
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE_S
        while not any(says in line for line in server.log[seen:]):
            assert time.monotonic() < deadline, "".join(server.log)
            time.sleep(0.01)


@pytest.fixture
def config(tmp_path):
    return Config(tmp_path / "headway.ini")


def wait_for(server, name, value, key="chat-key"):
    server.http.headers.update(bearer(key))  # for /metrics
    deadline = time.monotonic() + PATIENCE_S
    while server.metric(name) != value:
        assert time.monotonic() < deadline, f"{name} is {server.metric(name)}, want {value}"
        time.sleep(0.01)


class Stream(threading.Thread):
    """A streamed chat that is read to its end, or to `close`."""

    def __init__(self, server, key, content="hi", **fields):
        super().__init__(daemon=True)
        self.server, self.key = server, key
        self.body = {**CHAT, "messages": [{"role": "user", "content": content}], "stream": True, **fields}
        self.frames, self.status, self.left = [], None, False
        self.start()

    def run(self):
        url = "/v1/chat/completions"
        headers = bearer(self.key) if self.key else {}
        with self.server.http.stream("POST", url, json=self.body, headers=headers) as r:
            self.status = r.status_code
            for event in events(r.iter_lines()):
                if event is not None:
                    self.frames.append((time.monotonic(), event))
                if self.left:
                    return

    def close(self):
        self.left = True
        self.join(PATIENCE_S)

    def tokens(self):
        choices = [e["choices"][0] for _, e in self.frames if e != "[DONE]" and e["choices"]]
        return sum(1 for choice in choices if choice["delta"].get("content"))

    def wait_tokens(self, count=1):
        deadline = time.monotonic() + PATIENCE_S
        while self.tokens() < count:
            assert time.monotonic() < deadline and (self.is_alive() or self.tokens() >= count), self.status
            time.sleep(0.005)
        return self


def refused(answer, status, reason):
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, reason), answer.text
    assert answer.headers["x-llm-d-request-dropped-reason"] == reason
    assert error["message"] and error["type"]
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    return error


# ---- keys and classes


def test_a_key_opens_the_door_and_no_other_does(serve, config):
    server = serve("--runner", "sim", "--config", config.path)
    for key in ["chat-key", "docs-key"]:
        assert server.post("/v1/chat/completions", {**CHAT, "max_tokens": 2}, headers=bearer(key)).status_code == 200
    for headers in [{}, bearer("other"), bearer(HASH), {"x-api-key": "chat-ke"}]:
        answer = server.post("/v1/chat/completions", CHAT, headers=headers)
        assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert server.http.get("/health").status_code == 200


def test_the_answer_states_the_tier_it_was_served_in(serve, config):
    server = serve("--runner", "sim", "--config", config.path)

    def tier(key, asked, **headers):
        answer = server.post(
            "/v1/chat/completions", {**CHAT, "max_tokens": 2, "service_tier": asked}, headers=bearer(key, **headers)
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["service_tier"], answer.headers.get("x-headway-warning", "")

    assert tier("chat-key", "auto") == ("default", "")
    assert tier("chat-key", "flex") == ("flex", "")
    assert tier("chat-key", "fast") == ("priority", "")
    assert tier("chat-key", "auto", x_llm_d_inference_objective="nightly-batch") == ("flex", "")
    assert tier("docs-key", "default") == ("flex", "")
    given, warning = tier("docs-key", "priority")
    assert given == "flex" and "may not" in warning
    given, warning = tier("docs-key", "auto", x_llm_d_slo_tpot_ms="50")
    assert given == "flex" and "x-llm-d-slo-tpot-ms" in warning
    answer = server.post("/v1/chat/completions", {**CHAT, "service_tier": "gold"}, headers=bearer("chat-key"))
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "service_tier"


def test_a_gateway_names_the_tenant(serve, config):
    server = serve("--runner", "sim", "--config", config.path, "--api-key", "gateway-key")

    def served(key, fairness, header="x-llm-d-inference-fairness-id"):
        body = {**CHAT, "max_tokens": 2, "service_tier": "auto"}
        answer = server.post("/v1/chat/completions", body, headers={**bearer(key), header: fairness})
        return answer.json()["service_tier"]

    assert served("gateway-key", "guest") == "flex"
    assert served("gateway-key", "guest", "x-gateway-inference-fairness-id") == "flex"
    assert served("gateway-key", "docs") == "default"  # docs has a key of its own
    assert served("gateway-key", "nobody") == "default"
    assert served("chat-key", "guest") == "default"
    server.http.headers.update(bearer("chat-key"))
    time.sleep(0.6)  # the numbers of tenants are read twice a second
    lines = server.http.get("/metrics").text.splitlines()
    counts = [line for line in lines if 'tenant="guest"' in line and "requests" in line and line.endswith(" 2.0")]
    assert counts, [line for line in lines if "guest" in line]


def test_a_stream_states_its_tier(serve, config):
    server = serve("--runner", "sim", "--config", config.path)
    stream = Stream(server, "docs-key", max_tokens=3, service_tier="auto")
    stream.join(PATIENCE_S)
    assert {e["service_tier"] for _, e in stream.frames if e != "[DONE]"} == {"flex"}


@pytest.mark.parametrize(
    "name", ["x-llm-d-slo-ttft-ms", "x-llm-d-slo-tpot-ms", "x-slo-ttft-ms", "x-slo-tpot-ms"], ids=lambda n: n
)
def test_a_bound_that_is_none_is_refused_by_name(sim, name):
    for value in ["0", "-1", "soon", "1e3"]:
        answer = sim.post("/v1/chat/completions", CHAT, headers={name: value})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == name, answer.text
    assert sim.post("/v1/chat/completions", {**CHAT, "max_tokens": 1}, headers={name: "60000.5"}).status_code == 200


# ---- the file


@pytest.mark.parametrize(
    "text, says",
    [
        ("[server]\ngap-ms = soon\n", "2: gap-ms: --gap-ms: 'soon' is not auto or a number from 1 to 3600000"),
        ("[server]\npolicy = best\n", "2: policy: --policy: 'best', want one of prefill-first"),
        ("[server]\nchat-share = 2\n", "2: chat-share: --chat-share: '2' is not a number from 0 to 1"),
        ("[server]\nport = 70000\n", "2: port: --port: '70000' is not a number from 0 to 65535"),
        ("[server]\nspeed = 2\n", "2: speed: no such setting"),
        ("[server]\napi-key = 2\n", "2: api-key: keys belong to a tenant"),
        ("[tenant a]\n\nclass = slow\n", "3: class: 'slow', want interactive or batch"),
        ("[tenant a]\nkey = x\n[tenant b]\nkey = x\n", "4: key: the same key stands in line 2 already"),
    ],
    ids=lambda v: v.split(":")[1].strip() if ": " in v else "",
)
def test_a_wrong_file_is_refused_with_line_and_key(config, text, says):
    config.write(text)
    done = subprocess.run(
        [HEADWAY, "serve", "--runner", "sim", "--port", "0", "--config", config.path],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert f"{config.path}:{says}" in done.stderr


def test_the_command_line_wins_over_the_file(serve, config):
    config.write("[server]\nctx = 512\nparallel = 3\n")
    server = serve("--runner", "sim", "--config", config.path, "--ctx", 256)
    assert server.says("context 256 tokens, 3 streams")


def test_keys_that_everyone_may_read_are_warned_of(serve, config):
    os.chmod(config.path, 0o644)
    server = serve("--runner", "sim", "--config", config.path)
    assert server.says("every user may read it")
    log = "".join(server.log)
    assert "chat-key" not in log and "docs-key" not in log


def test_hash_key_prints_what_the_file_wants():
    done = subprocess.run([HEADWAY, "hash-key"], input="docs-key\n", capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, HASH + "\n")
    done = subprocess.run([HEADWAY, "hash-key"], input="a b\n", capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2 and done.stdout == "" and "a b" not in done.stderr


def test_a_reload_keeps_streams_and_a_wrong_file_changes_nothing(serve, config):
    server = serve("--runner", SLOW, "--config", config.path)
    stream = Stream(server, "chat-key", max_tokens=100, ignore_eos=True).wait_tokens(3)
    config.reload(server, SHARED.replace("chat-key", "new-key"), "has been read again")
    assert server.http.get("/v1/models", headers=bearer("new-key")).status_code == 200
    assert server.http.get("/v1/models", headers=bearer("chat-key")).status_code == 401
    config.reload(server, SHARED + "[tenant chat]\n", f"{config.path}:15: tenant chat: has a section in line 4 already")
    assert server.http.get("/v1/models", headers=bearer("new-key")).status_code == 200
    config.reload(server, "[tenant chat]\nkey = new-key\n", "[server] has changed")
    assert server.http.get("/v1/models", headers=bearer("docs-key")).status_code == 401
    assert stream.is_alive() and stream.tokens() < 100, "the stream was to outlive the reloads"
    stream.join(PATIENCE_S)
    assert stream.frames[-1][1] == "[DONE]" and stream.tokens() == 100


def test_a_hangup_without_a_file_ends_nothing(serve):
    server = serve("--runner", "sim")
    server.process.send_signal(signal.SIGHUP)
    assert server.says("no config file")
    assert server.chat(max_tokens=1).status_code == 200


def test_hundreds_of_reloads_under_load(serve, config):
    server = serve("--runner", "sim:reply_tokens=200,decode_base_us=1000", "--config", config.path)
    streams = [Stream(server, "chat-key", max_tokens=200, ignore_eos=True) for _ in range(8)]
    for i in range(200):
        config.write(SHARED.replace("weight = 2", f"weight = {1 + i % 5}"))
        server.process.send_signal(signal.SIGHUP)
        if i % 10 == 0:
            assert server.http.get("/v1/models", headers=bearer("docs-key")).status_code == 200
    for stream in streams:
        stream.join(PATIENCE_S)
        assert stream.frames[-1][1] == "[DONE]"
    assert server.http.get("/v1/models", headers=bearer("chat-key")).status_code == 200


# ---- refusals


def chat(server, key, **fields):
    return server.post("/v1/chat/completions", {**CHAT, **fields}, headers=bearer(key))


def test_a_full_tenant_queue_refuses_that_tenant_only(serve, config):
    server = serve("--runner", SLOW, "--config", config.path)
    running = Stream(server, "docs-key", max_tokens=1000, ignore_eos=True).wait_tokens()
    waiting = Stream(server, "docs-key", max_tokens=1000, ignore_eos=True)
    wait_for(server, "vllm:num_requests_waiting", 1)
    error = refused(chat(server, "docs-key", max_tokens=1), 429, "tenant_queue_full")
    assert "docs" in error["message"]
    assert chat(server, "chat-key", max_tokens=1).status_code == 200
    running.close()
    waiting.close()


def test_what_could_run_at_once_does_not_count_as_waiting(serve, config):
    config.write("[tenant chat]\nkey = chat-key\nqueued = 1\n")
    server = serve("--runner", SLOW, "--config", config.path, "--parallel", 6)
    answer = chat(server, "chat-key", n=4, max_tokens=2, ignore_eos=True)
    assert answer.status_code == 200, answer.text
    streams = [Stream(server, "chat-key", max_tokens=1000, ignore_eos=True) for _ in range(6)]
    for stream in streams:
        stream.wait_tokens()
    streams.append(Stream(server, "chat-key", max_tokens=1000, ignore_eos=True))
    wait_for(server, "vllm:num_requests_waiting", 1)
    refused(chat(server, "chat-key", max_tokens=1), 429, "tenant_queue_full")
    for stream in streams:
        stream.close()


def test_tokens_in_flight_are_limited(serve, config):
    server = serve("--runner", SLOW, "--config", config.path)
    refused(chat(server, "docs-key", max_tokens=3000), 429, "tenant_tokens_in_flight")
    refused(chat(server, "docs-key", max_tokens=1500, n=2), 429, "tenant_tokens_in_flight")
    assert chat(server, "chat-key", max_tokens=1).status_code == 200


@pytest.mark.alone
def test_a_bound_that_no_load_could_meet_is_refused_and_the_possible_one_named(serve):
    server = serve("--runner", SLOW)
    stream = Stream(server, None, max_tokens=1000, ignore_eos=True).wait_tokens(20)  # its steps teach the model
    answer = server.post("/v1/chat/completions", CHAT, headers={"x-llm-d-slo-tpot-ms": "2"})
    message = refused(answer, 400, "gap_bound_impossible")["message"]
    least = float(message.split("the smallest is ")[1].split(" ms")[0])
    assert 15 < least < 100
    answer = server.post(
        "/v1/chat/completions", {**CHAT, "max_tokens": 1}, headers={"x-llm-d-slo-tpot-ms": str(3 * least)}
    )
    assert answer.status_code == 200, answer.text
    answer = server.post("/v1/chat/completions", CHAT, headers={"x-llm-d-slo-ttft-ms": "1"})
    refused(answer, 429, "first_token_bound")
    stream.close()


def test_a_tenant_that_is_removed_under_a_request_is_told(serve, config):
    server = serve("--runner", "sim", "--config", config.path)
    body = json.dumps(CHAT).encode()
    with server.connect() as s:
        head = f"POST /v1/chat/completions {HEAD}Authorization: Bearer docs-key\r\nContent-Type: application/json\r\n"
        s.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body))
        time.sleep(0.2)
        config.reload(server, "[tenant chat]\nkey = chat-key\n", "has been read again")
        s.sendall(body)
        status, answer = read_answers(s, 1)[0]
    assert status == 403 and json.loads(answer)["error"]["code"] == "tenant_removed"
    assert chat(server, "docs-key").status_code == 401


def test_a_draining_server_refuses_with_a_reason(serve):
    server = serve("--runner", SLOW)
    stream = Stream(server, None, max_tokens=100, ignore_eos=True).wait_tokens()
    server.process.send_signal(signal.SIGTERM)
    wait_for_status = time.monotonic() + PATIENCE_S
    while server.http.get("/health").status_code == 200:
        assert time.monotonic() < wait_for_status
    refused(server.post("/v1/chat/completions", CHAT), 503, "draining")
    stream.join(PATIENCE_S)
    assert stream.frames[-1][1] == "[DONE]"
    assert server.process.wait(PATIENCE_S) == 0


def fill(server):
    """Leaves no room for another request of docs."""
    streams = [Stream(server, "docs-key", max_tokens=1000, ignore_eos=True).wait_tokens()]
    streams.append(Stream(server, "docs-key", max_tokens=1000, ignore_eos=True))
    wait_for(server, "vllm:num_requests_waiting", 1)
    return streams


def docs_head(*lines):
    all_lines = ["Authorization: Bearer docs-key", "Content-Type: application/json", *lines]
    return f"POST /v1/chat/completions {HEAD}{''.join(line + chr(13) + chr(10) for line in all_lines)}\r\n".encode()


def test_refusals_come_before_the_body_where_that_saves_it(serve, config):
    server = serve("--runner", SLOW, "--config", config.path)
    streams = fill(server)
    large, chunked = ["Content-Length: 30000000"], ["Transfer-Encoding: chunked"]
    for lines in (large, chunked, ["Content-Length: 9", "Expect: 100-continue"]):
        with server.connect() as s:
            s.sendall(docs_head(*lines))
            got = b""
            while b"tenant_queue_full\"" not in got:
                piece = s.recv(65536)
                assert piece, got
                got += piece
            assert got.startswith(b"HTTP/1.1 429 ") and b"100 Continue" not in got and b"Connection: close" in got
            for _ in range(100):  # a client that goes on sending loses nothing
                s.sendall(b"x" * 10000)
    for stream in streams:
        stream.close()


def test_short_refused_requests_keep_their_connection(serve, config):
    server = serve("--runner", SLOW, "--config", config.path)
    streams = fill(server)
    body = json.dumps(CHAT).encode()
    with server.connect() as s:
        for _ in range(3):
            s.sendall(docs_head(f"Content-Length: {len(body)}") + body)
            status, answer = read_answers(s, 1)[0]
            assert status == 429 and json.loads(answer)["error"]["code"] == "tenant_queue_full"
        s.sendall(f"GET /health {HEAD}\r\n".encode())
        assert read_answers(s, 1)[0][0] == 200
    for stream in streams:
        stream.close()


@pytest.mark.alone
def test_refusals_are_fast_while_prompts_are_read(serve, config):
    """Printed with -s; the bound asserted is generous, machines of tests are busy."""
    runner = "sim:reply_tokens=4000,decode_base_us=5000,prefill_tokens_per_s=2000"
    server = serve("--runner", runner, "--config", config.path)
    streams = fill(server)
    reading = [Stream(server, "chat-key", content="x" * 6000, max_tokens=1) for _ in range(4)]
    body = json.dumps(CHAT).encode()
    request, taken = docs_head(f"Content-Length: {len(body)}") + body, []
    with server.connect() as s:
        for _ in range(500):
            start = time.monotonic()
            s.sendall(request)
            assert read_answers(s, 1)[0][0] == 429
            taken.append((time.monotonic() - start) * 1e3)
    taken.sort()
    print(f"a refusal, seen by the client: median {taken[250]:.2f}, p99 {taken[495]:.2f}, worst {taken[-1]:.2f} ms")
    assert server.metric("headway_refusal_seconds_count") == 500
    assert taken[495] < 50
    for stream in streams + reading:
        stream.close()


@pytest.mark.alone
def test_a_slow_reader_slows_nobody(serve, config):
    server = serve("--runner", "sim:reply_tokens=6000,decode_base_us=1000", "--config", config.path)
    body = json.dumps({**CHAT, "stream": True, "max_tokens": 6000, "ignore_eos": True}).encode()

    def time_of_a_chat():
        start = time.monotonic()
        assert chat(server, "chat-key", max_tokens=300, ignore_eos=True).status_code == 200
        return time.monotonic() - start

    alone = time_of_a_chat()
    readers = [server.connect(receive_buffer=4096) for _ in range(5)]
    for s in readers:
        s.sendall(
            f"POST /v1/chat/completions {HEAD}Authorization: Bearer chat-key\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
    time.sleep(1)
    beside = time_of_a_chat()
    print(f"300 tokens: alone {alone:.2f} s, beside 5 clients that do not read {beside:.2f} s")
    assert beside < 2 * alone + 0.5
    for s in readers:
        s.close()
