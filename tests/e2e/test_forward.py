"""Requests that another server answers: to another Headway, and to one that is slow, strange or away."""

import http.server
import json
import os
import random
import socket
import subprocess
import threading
import time

import httpx
import openai
import pytest

from conftest import HEADWAY, PATIENCE_S, events, free_ports

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
HERE = [{"reply": "answered here", "match": "", "times": 0}]
THERE = [{"reply": "answered there", "match": "", "times": 0}]


class Upstream:
    """A server whose answers a test writes: answer(request handler, body)."""

    def __init__(self):
        self.seen, self.gone, self.release = [], threading.Event(), threading.Event()
        self.answer = lambda handler, body: handler.reply(200, {"object": "whole"})
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                upstream.seen.append((self.path, dict(self.headers.items()), body))
                try:
                    upstream.answer(self, body)
                except OSError:
                    upstream.gone.set()

            def reply(self, status, body, **headers):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)),
                                    **{n.replace("_", "-"): v for n, v in headers.items()}}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def begin_events(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("X-Request-Id", "theirs")
                self.send_header("Set-Cookie", "tracked=yes")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True

            def event(self, data):
                self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a client that leaves is what some tests are about
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def upstream():
    u = Upstream()
    yield u
    u.release.set()
    u.server.shutdown()
    u.server.server_close()


@pytest.fixture
def front(serve, tmp_path):
    """front(url, more lines of [tenant away], flags): a server that forwards the tenant `away`."""

    def start(url, more="", flags=(), server=""):
        path = tmp_path / "front.ini"
        path.write_text(f"[server]\n{server}\n[tenant default]\nkey = operator\n[tenant away]\nkey = away-key\n"
                        f"forward = {url}\n{more}\n[tenant docs]\nkey = docs-key\nclass = batch\n")
        os.chmod(path, 0o600)
        s = serve("--config", path, *flags, script=HERE)
        s.http.headers["Authorization"] = "Bearer away-key"
        return s

    return start


def as_tenant(key):
    return {"Authorization": f"Bearer {key}"}


def said(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def test_a_tenants_requests_go_to_the_other_server(serve, front):
    other = serve("--api-key", "shared", script=THERE)
    for url in (other.url, other.url + "/", other.url + "/v1", other.url + "/v1/"):
        server = front(url, "forward_key = shared")
        assert said(server.chat()) == "answered there"
        assert said(server.post("/chat/completions", CHAT)) == "answered there"
        assert said(server.post("/v1/chat/completions", CHAT, headers=as_tenant("operator"))) == "answered here"
        assert server.post("/v1/chat/completions", CHAT, headers=as_tenant("wrong")).status_code == 401
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="away-key")
        stream = client.chat.completions.create(model="any", messages=CHAT["messages"], stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == "answered there"
        text = client.completions.create(model="any", prompt="hi")
        assert text.choices[0].text == "answered there"
        server.http.headers.update(as_tenant("operator"))
        assert server.metric("headway:requests_forwarded_total") == 4
        server.stop()


def test_batch_work_goes_to_the_other_server(serve, front):
    other = serve("--api-key", "shared", script=THERE)
    server = front("http://127.0.0.1:9", server=f"forward-batch = {other.url}/v1\nforward-batch-key = shared")
    assert said(server.post("/v1/chat/completions", CHAT, headers=as_tenant("docs-key"))) == "answered there"
    me = as_tenant("operator")
    assert said(server.post("/v1/chat/completions", CHAT, headers=me)) == "answered here"
    assert said(server.post("/v1/chat/completions", {**CHAT, "service_tier": "auto"}, headers=me)) == "answered here"
    assert said(server.post("/v1/chat/completions", {**CHAT, "service_tier": "flex"}, headers=me)) == "answered there"
    batch = {**me, "x-llm-d-inference-objective": "batch"}
    assert said(server.post("/v1/chat/completions", CHAT, headers=batch)) == "answered there"
    broken = server.http.post("/v1/chat/completions", content=b"{", headers={**me, "Content-Type": "application/json"})
    assert broken.status_code == 400  # what stays here is still read here


def test_only_listed_headers_pass_and_no_key(front, upstream):
    server = front(upstream.url, "forward_key = theirs-1")
    body = json.dumps(CHAT, indent=3).encode()  # as it came, byte for byte
    upstream.answer = lambda h, b: h.reply(200, {"ok": True}, X_Request_Id="back", Set_Cookie="no", X_Powered_By="no")
    answer = server.http.post("/v1/chat/completions?x=1", content=body, headers={
        "Content-Type": "application/json", "X-Request-Id": "r-7", "traceparent": "00-aa-bb-01", "Cookie": "secret",
        "x-api-key": "secret", "X-Custom": "secret", "Proxy-Authorization": "secret", "x-llm-d-slo-ttft-ms": "900"})
    assert answer.json() == {"ok": True}
    assert answer.headers["x-request-id"] == "back"
    assert "set-cookie" not in answer.headers and "x-powered-by" not in answer.headers
    path, headers, seen = upstream.seen[0]
    headers = {name.lower(): value for name, value in headers.items()}
    assert (path, seen) == ("/v1/chat/completions", body)
    assert headers["authorization"] == "Bearer theirs-1"
    assert headers["x-request-id"] == "r-7" and headers["traceparent"] == "00-aa-bb-01"
    assert headers["x-llm-d-slo-ttft-ms"] == "900"
    assert "secret" not in json.dumps(headers) and "away-key" not in json.dumps(headers)
    without = front(upstream.url)
    assert without.chat().status_code == 200
    assert "authorization" not in {name.lower() for name in upstream.seen[-1][1]}


def test_a_stream_passes_event_by_event(front, upstream):
    server = front(upstream.url)

    def answer(handler, _):
        handler.begin_events()
        handler.event({"n": 1})
        assert upstream.release.wait(PATIENCE_S)  # the client has the first one before there is a second
        handler.event({"n": 2})
        handler.wfile.write(b"data: [DONE]\n\n")

    upstream.answer = answer
    with server.http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["x-request-id"] == "theirs" and "set-cookie" not in stream.headers
        got = events(stream.iter_lines())
        assert next(got) == {"n": 1}
        upstream.release.set()
        assert list(got) == [{"n": 2}, "[DONE]"]


def test_a_client_that_leaves_ends_it_there_too(front, upstream):
    server = front(upstream.url)

    def answer(handler, _):
        handler.begin_events()
        while True:
            handler.event({"filler": "x" * 1000})
            time.sleep(0.005)

    upstream.answer = answer
    with server.http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as stream:
        next(events(stream.iter_lines()))
    assert upstream.gone.wait(PATIENCE_S)


def test_a_client_that_does_not_read_holds_the_other_server_up(front, upstream):
    server = front(upstream.url)
    sent = []

    def answer(handler, _):
        handler.begin_events()
        handler.connection.settimeout(2)
        for n in range(64):
            handler.event({"n": n, "filler": "x" * 1000000})
            sent.append(n)

    upstream.answer = answer
    raw = server.connect(receive_buffer=65536)
    body = json.dumps({**CHAT, "stream": True})
    raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer away-key\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert upstream.gone.wait(PATIENCE_S)  # its write timed out
    assert len(sent) < 40
    assert server.rss() < 400 << 20
    raw.close()


def test_clients_that_leave_at_any_moment_leave_nothing_behind(front, upstream):
    server = front(upstream.url, "concurrent = 8")
    rng = random.Random(4)

    def answer(handler, _):
        time.sleep(rng.random() * 0.004)
        handler.begin_events()
        for n in range(20):
            handler.event({"n": n, "filler": "x" * rng.randrange(2000)})
            time.sleep(rng.random() * 0.001)

    upstream.answer = answer
    body = json.dumps({**CHAT, "stream": True})
    for _ in range(150):
        raw = server.connect()
        raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer away-key\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        if rng.random() < 0.5:
            raw.recv(rng.randrange(1, 3000))
        time.sleep(rng.random() * 0.01)
        raw.close()
    upstream.answer = lambda h, b: h.reply(200, {"ok": True})
    deadline = time.monotonic() + PATIENCE_S
    while server.chat().status_code != 200:  # none of the eight places is still taken
        assert time.monotonic() < deadline
        time.sleep(0.05)
    upstream.release.set()
    answers = [server.chat().status_code for _ in range(20)]
    assert answers == [200] * 20


def test_what_the_other_server_says_of_the_request_passes(front, upstream):
    server = front(upstream.url)
    for status in (400, 404, 422, 429, 500, 503):
        upstream.answer = lambda h, b, s=status: h.reply(s, {"error": {"message": "theirs"}}, Retry_After="3")
        answer = server.chat()
        assert (answer.status_code, answer.json()) == (status, {"error": {"message": "theirs"}})
        assert answer.headers["retry-after"] == "3"
    for status in (301, 401, 403):
        upstream.answer = lambda h, b, s=status: h.reply(s, {"error": "invalid key theirs-1"}, Location="http://x/")
        answer = server.chat()
        assert answer.status_code == 502 and answer.json()["error"]["code"] == "upstream_error"
        assert "theirs-1" not in answer.text


def test_a_server_that_is_away_or_breaks_off_is_a_502(front, upstream):
    away = f"http://127.0.0.1:{free_ports(1)[0]}"
    server = front(away, "forward_key = theirs-1")
    answer = server.chat()
    assert answer.status_code == 502 and "cannot be reached" in answer.json()["error"]["message"]
    assert away not in answer.text  # where it is concerns the operator only
    assert server.says(away) and not any("theirs-1" in line for line in server.log)
    server = front(upstream.url)

    def close(handler, _):
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    upstream.answer = close
    assert server.chat().status_code == 502

    def cut(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices": [')
        close(handler, _)

    upstream.answer = cut
    assert server.chat().status_code == 502

    def cut_events(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.event({"n": 1})
        close(handler, _)

    upstream.answer = cut_events
    with server.http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as stream:
        got = list(events(stream.iter_lines()))
    assert got[0] == {"n": 1} and got[1]["error"]["code"] == "upstream_error" and len(got) == 2
    assert said(server.post("/v1/chat/completions", CHAT, headers=as_tenant("operator"))) == "answered here"


def test_an_answer_without_end_is_cut(front, upstream):
    server = front(upstream.url)
    upstream.answer = lambda h, b: h.reply(200, b"x" * (17 << 20))
    answer = server.chat()
    assert answer.status_code == 502 and "more than 16 MB" in answer.text


def test_a_tenants_limit_counts_what_is_forwarded(front, upstream):
    server = front(upstream.url, "concurrent = 2\nqueued = 1")

    def answer(handler, _):
        upstream.release.wait(PATIENCE_S)
        handler.reply(200, {"choices": []})

    upstream.answer = answer
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        httpx.post(server.url + "/v1/chat/completions", json=CHAT, headers=as_tenant("away-key"), timeout=PATIENCE_S,
                   trust_env=False))) for _ in range(3)]
    for t in threads:
        t.start()
    deadline = time.monotonic() + PATIENCE_S
    while len(upstream.seen) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    refused = server.chat()
    assert refused.status_code == 429 and refused.json()["error"]["code"] == "tenant_queue_full"
    assert refused.headers["retry-after"]
    upstream.release.set()
    for t in threads:
        t.join()
    assert [a.status_code for a in answers] == [200] * 3
    assert server.chat().status_code == 200


def test_two_that_forward_to_each_other_are_told(serve, tmp_path):
    (port,) = free_ports(1)
    path = tmp_path / "loop.ini"
    path.write_text(f"[tenant default]\nforward = http://127.0.0.1:{port}\n")
    server = serve("--config", path, "--port", port, script=HERE)
    answer = server.chat()
    assert answer.status_code == 502 and "forward this request to each other" in answer.text


def test_the_configs_mistakes_are_told(serve, tmp_path):
    path = tmp_path / "bad.ini"
    for line, says in (("forward = ftp://h", "http:// or https://"), ("forward = http://u:hunter2@h", "forward-key"),
                       ("forward = http://", "no host"), ("forward_key = a b", "no blanks")):
        path.write_text(f"[tenant a]\n{line}\n")
        done = subprocess.run([HEADWAY, "serve", "--runner", "sim", "--port", "0", "--config", path],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode != 0 and says in done.stderr and "hunter2" not in done.stderr, done.stderr
    done = subprocess.run([HEADWAY, "serve", "--runner", "sim", "--port", "0", "--forward-batch", "h:80"],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode != 0 and "--forward-batch" in done.stderr
