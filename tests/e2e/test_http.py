"""HTTP itself, by raw sockets: framing, limits, deadlines, keys, and the end of the server."""

import http.client
import json
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import PATIENCE_S

HEAD = "HTTP/1.1\r\nHost: x\r\n"
CHUNKED = f"POST /tokenize {HEAD}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CHAT = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3})


def post(body, extra="", path="/v1/chat/completions"):
    return (
        f"POST {path} {HEAD}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}\r\n{body}".encode()
    )


def exchange(server, data, half_close=False):
    """Sends and reads until the server closes."""
    with server.connect() as s:
        s.sendall(data)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        got = b""
        while piece := s.recv(65536):
            got += piece
    return got


def read_answers(s, count):
    """Reads `count` answers off a connection that stays open."""
    answers, got = [], b""
    while len(answers) < count:
        match = re.match(rb"HTTP/1\.1 (\d+) .*?\r\n\r\n", got, re.S)
        if match:
            length = int(re.search(rb"Content-Length: (\d+)", match.group(0)).group(1))
            if len(got) >= match.end() + length:
                answers.append((int(match.group(1)), got[match.end() : match.end() + length]))
                got = got[match.end() + length :]
                continue
        piece = s.recv(65536)
        assert piece, f"closed after {len(answers)} answers"
        got += piece
    assert got == b""
    return answers


MALFORMED = {
    "bare LF": b"GET /health HTTP/1.1\nHost: x\n\n",
    "folded header": f"GET /health {HEAD}A: b\r\n c\r\n\r\n".encode(),
    "NUL": f"GET /health {HEAD}A: \0\r\n\r\n".encode(),
    "blank before colon": f"GET /health {HEAD}A : b\r\n\r\n".encode(),
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": f"GET /health {HEAD}Host: y\r\n\r\n".encode(),
    "two lengths": f"POST /tokenize {HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}".encode(),
    "length and chunked": f"POST /tokenize {HEAD}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}".encode(),
    "coding gzip": f"POST /tokenize {HEAD}Transfer-Encoding: gzip\r\n\r\n".encode(),
    "coding list": f"POST /tokenize {HEAD}Transfer-Encoding: chunked, chunked\r\n\r\n".encode(),
    "negative length": f"POST /tokenize {HEAD}Content-Length: -1\r\n\r\n".encode(),
    "length with letters": f"POST /tokenize {HEAD}Content-Length: 2x\r\n\r\n".encode(),
    "chunk size": (CHUNKED + "zz\r\n").encode(),
    "chunk end": (CHUNKED + "1\r\nab\r\n").encode(),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.0": b"GET / HTTP/3.0\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "absolute target": f"GET http://x/health {HEAD}\r\n".encode(),
    "TLS": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    "control in target": f"GET /\x01 {HEAD}\r\n".encode(),
    "long target": f"GET /{'a' * 5000} {HEAD}\r\n".encode(),
    "long head": f"GET / {HEAD}A: {'a' * 20000}\r\n\r\n".encode(),
    "many headers": f"GET / {HEAD}{''.join(f'a{i}: b{chr(13)}{chr(10)}' for i in range(70))}\r\n".encode(),
    "expectation": f"POST /tokenize {HEAD}Expect: magic\r\nContent-Length: 2\r\n\r\n{{}}".encode(),
    "CONNECT": b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "garbage": b"\r\r\r\r\n\n\n",
    "header without colon": f"GET / {HEAD}abc\r\n\r\n".encode(),
    "empty name": f"GET / {HEAD}: a\r\n\r\n".encode(),
    "DEL in value": f"GET / {HEAD}A: \x7f\r\n\r\n".encode(),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_refused(sim, name):
    got = exchange(sim, MALFORMED[name] + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert re.match(rb"HTTP/1\.1 (400|414|417|431|501|505) ", got), got[:200]
    assert got.count(b"HTTP/1.1 ") == 1  # what follows is not taken for a request
    assert b"Connection: close" in got and b'"error"' in got


def test_pipelined_requests_are_answered_in_order(sim):
    with sim.connect() as s:
        s.sendall(
            b"".join(
                [post(CHAT), f"GET /health {HEAD}\r\n".encode(), post('{"content":"ab"}', path="/tokenize"), post(CHAT)]
            )
        )
        answers = read_answers(s, 4)
    assert [a[0] for a in answers] == [200] * 4
    assert b"chat.completion" in answers[0][1] and b"ok" in answers[1][1] and b"97,98" in answers[2][1]


def test_bytes_one_by_one(sim):
    with sim.connect() as s:
        for byte in post('{"content":"ab"}', path="/tokenize"):
            s.send(bytes([byte]))
        assert read_answers(s, 1)[0][0] == 200


def test_chunked_bodies(sim):
    head = f"POST /tokenize {HEAD}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with sim.connect() as s:
        for _ in range(2):
            s.sendall(head + b'3;x=y\r\n{"c\r\n')
            time.sleep(0.02)
            s.sendall(b'd\r\nontent":"ab"}\r\n0\r\nTrailer: x\r\n\r\n')
            assert b"97,98" in read_answers(s, 1)[0][1]


def test_expect_continue(sim):
    with sim.connect() as s:
        request = post('{"content":"ab"}', "Expect: 100-continue\r\n", "/tokenize")
        head, _, body = request.partition(b"\r\n\r\n")
        s.sendall(head + b"\r\n\r\n")
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(body)
        assert read_answers(s, 1)[0][0] == 200
    refused = exchange(sim, b"POST /nowhere HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 404 ")  # without a 100 first


def test_head_options_and_http_1_0(sim):
    got = exchange(sim, f"HEAD /health {HEAD}Connection: close\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 200 ") and b"Content-Length: 15\r\n" in got and got.endswith(b"\r\n\r\n")
    r = sim.http.options(
        "/v1/chat/completions",
        headers={"Origin": "http://a", "Access-Control-Request-Headers": "authorization,content-type"},
    )
    assert r.status_code == 204 and r.headers["access-control-allow-origin"] == "*"
    assert (
        r.headers["access-control-allow-headers"] == "authorization,content-type"
        and "POST" in r.headers["access-control-allow-methods"]
    )
    assert sim.http.get("/health").headers["access-control-allow-origin"] == "*"
    body = CHAT[:-1] + ', "stream": true}'
    got = exchange(
        sim,
        post(body).replace(b"HTTP/1.1\r\nHost: x", b"HTTP/1.0\r\nX: x", 1),
    )
    assert b"Transfer-Encoding" not in got and got.endswith(b"data: [DONE]\n\n")
    got = exchange(sim, f"GET /health {HEAD}\r\n".encode(), half_close=True)
    assert got.startswith(b"HTTP/1.1 200 ")


def test_method_and_media_type(sim):
    r = sim.http.get("/v1/chat/completions")
    assert r.status_code == 405 and "POST" in r.headers["allow"]
    assert sim.http.request("DELETE", "/v1/models").status_code == 405
    assert (
        sim.http.post(
            "/v1/completions", content=b"x", headers={"content-type": "application/x-www-form-urlencoded"}
        ).status_code
        == 415
    )
    assert sim.http.post("/v1/completions", content=b"x", headers={"content-encoding": "gzip"}).status_code == 415


def test_413_reaches_a_client_that_still_sends(sim):
    for _ in range(3):
        c = http.client.HTTPConnection("127.0.0.1", sim.port, timeout=PATIENCE_S)
        c.request("POST", "/tokenize", body=b"x" * 100_000_000, headers={"Content-Type": "application/json"})
        r = c.getresponse()
        assert r.status == 413 and b"too large" in r.read()
        c.close()
    pieces = (b"x" * 1_000_000 for _ in range(80))
    c = http.client.HTTPConnection("127.0.0.1", sim.port, timeout=PATIENCE_S)
    c.request("POST", "/tokenize", body=pieces, headers={"Content-Type": "application/json"}, encode_chunked=True)
    assert c.getresponse().status == 413
    c.close()


@pytest.mark.alone
def test_large_bodies_do_not_hold_up_others(sim):
    text = "x" * 30_000_000
    with sim.connect() as s:
        s.sendall(post(json.dumps({"tokens": []}), path="/detokenize"))
        read_answers(s, 1)
        s.sendall(post(json.dumps({"prompt": text, "max_tokens": 1}), path="/v1/completions"))
        worst = 0
        s.setblocking(False)
        got = b""
        while b"\r\n\r\n" not in got:
            start = time.monotonic()
            assert sim.http.get("/health").status_code == 200
            worst = max(worst, time.monotonic() - start)
            try:
                got += s.recv(65536)
            except BlockingIOError:
                pass
    assert got.startswith(b"HTTP/1.1 400 ") and b"exceed_context_size_error" in got
    assert worst < 1.0
    print(f"longest /health while a 30 MB body was read: {worst * 1e3:.0f} ms")


def test_keys(serve):
    server = serve("--runner", "sim", "--api-key", "first,second", env={"HEADWAY_API_KEY": "third"})
    assert server.http.get("/health").status_code == 200
    r = server.chat()
    assert r.status_code == 401 and r.json()["error"]["code"] == "invalid_api_key" and "www-authenticate" in r.headers
    for key, status in (("first", 200), ("second", 200), ("third", 200), ("firs", 401), ("firstt", 401)):
        assert server.chat(max_tokens=1).status_code == 401
        got = server.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
        assert got.status_code == status, key
    assert server.http.get("/metrics").status_code == 401


def test_a_gone_client_stops_its_work(serve):
    server = serve("--runner", "sim:decode_base_us=2000,reply_tokens=100000,prefill_tokens_per_s=2000")
    body = json.dumps({"prompt": "x" * 4000, "cache_prompt": False, "max_tokens": 4000})

    def busy():
        return server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting")

    for name, data, wait in (
        ("before the first byte", body, 0.1),
        ("streaming", body.replace("{", '{"stream": true, ', 1), 0.3),
        ("in prefill", body.replace("4000}", "10}"), 0.05),
    ):
        for reset in (False, True):
            s = server.connect()
            s.sendall(post(data, path="/v1/completions"))
            time.sleep(wait)
            deadline = time.monotonic() + 5
            while not busy():
                assert time.monotonic() < deadline, name
            if reset:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
            deadline = time.monotonic() + 1
            while busy():
                assert time.monotonic() < deadline, name
            assert server.held_pages() == 0, name


def test_a_full_queue_is_said_so(serve):
    server = serve("--runner", "sim:reply_tokens=100000", "--parallel", 1)
    sockets = []
    body = post(json.dumps({"prompt": ["x"] * 256, "max_tokens": 8000, "stream": True}), path="/v1/completions")
    for _ in range(4):  # 1,024 generations, one of them running
        s = server.connect()
        s.sendall(body)
        assert s.recv(12) == b"HTTP/1.1 200"
        sockets.append(s)
    s = server.connect()
    s.sendall(post(CHAT))
    sockets.append(s)
    time.sleep(0.3)
    r = server.chat()
    assert r.status_code == 429 and int(r.headers["retry-after"]) >= 1
    for s in sockets:
        s.close()


def test_late_heads_and_bodies(serve):
    server = serve("--runner", "sim")
    head, body, silent = server.connect(), server.connect(), server.connect()
    head.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nA: ")
    body.sendall(
        b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    start = time.monotonic()
    for s in (head, body):
        for _ in range(3):
            time.sleep(0.5)
            s.sendall(b"a")  # a trickle does not help
        got = s.recv(65536)
        assert got.startswith(b"HTTP/1.1 408 "), got
    assert 9 < time.monotonic() - start < 13
    silent.sendall(f"GET /health {HEAD}\r\n".encode())  # a quiet connection may stay
    assert read_answers(silent, 1)[0][0] == 200


def test_sigterm_lets_answers_end(serve):
    server = serve("--runner", "sim:decode_base_us=20000,reply_tokens=50")
    with server.http.stream("POST", "/v1/completions", json={"prompt": "x", "max_tokens": 40, "stream": True}) as r:
        lines = r.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with server.connect() as s:
            s.sendall(post(CHAT))
            refused = s.recv(65536)
        assert refused.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in refused
        rest = [line for line in lines if line.startswith("data: ")]
    assert rest[-1] == "data: [DONE]" and len(rest) >= 40
    assert server.process.wait(PATIENCE_S) == 0


def test_a_second_sigterm_stops_at_once(serve):
    server = serve("--runner", "sim:decode_base_us=20000,reply_tokens=100000")
    s = server.connect()
    s.sendall(post(json.dumps({"prompt": "x", "max_tokens": 5000, "stream": True}), path="/v1/completions"))
    s.recv(100)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert server.process.poll() is None
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_S) == 0 and time.monotonic() - start < 1


def test_a_taken_port_is_said_before_a_model_is_loaded(sim):
    run = subprocess.run(
        [sim.process.args[0], "serve", "--runner", "sim", "--port", str(sim.port)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert run.returncode == 1 and "address already in use" in run.stderr


def test_curl(sim):
    run = subprocess.run(
        [
            "curl",
            "-sS",
            "-N",
            sim.url + "/v1/chat/completions",
            "-H",
            "Content-Type: application/json",
            "-d",
            CHAT[:-1] + ', "stream": true}',
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert run.returncode == 0 and run.stdout.endswith("data: [DONE]\n\n")
