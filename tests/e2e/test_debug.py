"""What an operator sees: metrics by tenant, health, traces, the JSON behind the dashboard."""

import json
import signal
import threading
import time

import pytest

from conftest import Server

SIM = "sim:reply_tokens=400,decode_base_us=3000,prefill_tokens_per_s=8000"
DOCUMENT = "word " * 900


@pytest.fixture(scope="module")
def server():
    server = Server("--runner", SIM)
    yield server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture
def load(server):
    """Chats and a document that run until the test is over."""
    over = threading.Event()

    def chat():
        while not over.is_set():
            body = {"prompt": "hi", "max_tokens": 60, "stream": True}
            with server.http.stream("POST", "/v1/completions", json=body) as answer:
                for _ in answer.iter_lines():
                    if over.is_set():
                        return

    def document():
        while not over.is_set():
            server.post("/v1/completions", {"prompt": DOCUMENT, "max_tokens": 4, "service_tier": "flex"})

    threads = [threading.Thread(target=work) for work in (chat, chat, document)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def take_trace(server, seconds):
    with server.http.stream("GET", f"/debug/trace?seconds={seconds}") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        return b"".join(answer.iter_bytes())


def check_trace(events):
    """What a viewer wants; returns the device's slices in order."""
    for event in events:
        assert event["ph"] in "MXi" and event["name"] and event["pid"] in (1, 2)
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
    steps = sorted((e for e in events if e["ph"] == "X" and e["pid"] == 1), key=lambda e: e["ts"])
    for before, after in zip(steps, steps[1:]):
        assert before["ts"] + before["dur"] <= after["ts"], "two steps at once"
    return steps


def test_a_trace_parses_and_its_steps_do_not_overlap(server, load):
    begun = time.monotonic()
    events = json.loads(take_trace(server, 2))
    assert 1.9 < time.monotonic() - begun < 10
    steps = check_trace(events)
    names = {e["name"] for e in steps}
    assert "decode" in names and names & {"prefill", "fused"}
    assert all(e["args"]["measured_us"] == e["dur"] for e in steps)
    tokens = [e for e in events if e["pid"] == 2 and e["name"] in ("token", "late token")]
    assert len(tokens) > 50
    named = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == 2}
    assert {e["tid"] for e in tokens} <= named
    last = events[-1]
    assert last["name"] == "trace ends" and last["args"]["lost"] == 0 and last["args"]["records"] > 100
    for track in {e["tid"] for e in tokens}:
        gaps = sorted((e for e in tokens if e["tid"] == track), key=lambda e: e["ts"])
        for before, after in zip(gaps, gaps[1:]):
            assert abs(before["ts"] + before["dur"] - after["ts"]) <= 1, "a gap does not begin where the last one ended"


def test_a_trace_ends_well_when_the_server_drains(serve):
    server = serve("--runner", SIM)
    texts = []
    thread = threading.Thread(target=lambda: texts.append(take_trace(server, 60)))
    thread.start()
    time.sleep(0.5)
    server.process.send_signal(signal.SIGTERM)
    thread.join(20)
    server.process.wait(20)
    assert json.loads(texts[0])[-1]["name"] == "trace ends"


def test_a_client_may_leave_a_trace(server, load):
    for _ in range(10):
        with server.http.stream("GET", "/debug/trace?seconds=60") as answer:
            next(answer.iter_bytes())
    time.sleep(0.3)
    check_trace(json.loads(take_trace(server, 1)))  # the four places are free again


def test_a_reader_that_is_too_slow_is_told_what_it_lost(serve):
    server = serve("--runner", "sim:reply_tokens=4000,decode_base_us=100,decode_row_us=1")
    slow = server.connect(receive_buffer=4096)
    slow.sendall(b"GET /debug/trace?seconds=4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    before = server.rss()
    body = {"prompt": "hi", "max_tokens": 3000, "n": 32, "temperature": 1}
    assert server.post("/v1/completions", body).status_code == 200  # 96,000 tokens
    grown = server.rss() - before
    received = b""
    while piece := slow.recv(1 << 20):
        received += piece
    head, body = received.split(b"\r\n\r\n", 1)
    assert b"chunked" in head
    text = b""
    while body:
        size, body = body.split(b"\r\n", 1)
        text, body = text + body[: int(size, 16)], body[int(size, 16) + 2 :]
    events = json.loads(text)
    assert events[-1]["args"]["lost"] > 1000
    assert sum(e["args"]["count"] for e in events if e["name"] == "records lost") == events[-1]["args"]["lost"]
    check_trace(events)
    print(f"grown by {grown >> 10} KB")
    assert grown < 32 << 20


@pytest.mark.parametrize("query", ["seconds=0", "seconds=61", "seconds=x", "seconds="])
def test_a_trace_has_a_length(sim, query):
    answer = sim.http.get("/debug/trace?" + query)
    assert answer.status_code == 400 and "60" in answer.json()["error"]["message"]


def test_only_some_traces_at_once(sim):
    clients = [sim.connect() for _ in range(4)]
    for client in clients:
        client.sendall(b"GET /debug/trace?seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    answer = sim.http.get("/debug/trace?seconds=1")
    assert answer.status_code == 429 and answer.headers["retry-after"]
    for client in clients:
        client.close()


def test_head_of_a_trace_takes_none(sim):
    answer = sim.http.head("/debug/trace?seconds=60")
    assert answer.status_code == 200 and not answer.content


def test_steps_since_a_cursor(server, load):
    time.sleep(0.5)
    first = server.http.get("/debug/steps").json()
    assert first["lost"] == 0 and first["steps"] and first["tokens"] and first["moments"]
    time.sleep(0.5)
    second = server.http.get(f"/debug/steps?since={first['cursor']}").json()
    assert second["cursor"] > first["cursor"]
    count = sum(len(second[name]) for name in ("steps", "tokens", "moments"))
    assert count == second["cursor"] - first["cursor"]
    assert min(s[1] for s in second["steps"]) >= max(s[1] for s in first["steps"])
    same = server.http.get(f"/debug/steps?since={first['cursor']}").json()
    assert same["steps"][: len(second["steps"])] == second["steps"]


def test_a_cursor_of_another_server_starts_anew(sim):
    answer = sim.http.get("/debug/steps?since=18446744073709551615").json()
    assert answer["steps"] == [] and answer["cursor"] < 1 << 40
    assert sim.http.get("/debug/steps?since=-1").status_code == 400


def test_state_tells_of_every_stream(server):
    body = {"prompt": "hi", "max_tokens": 300, "stream": True}
    with server.http.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        for _ in range(20):
            next(lines)
        state = server.http.get("/debug/state").json()
    (stream,) = [s for s in state["streams"] if s["phase"] == "decoding"]
    assert stream["tokens"] >= 9 and stream["class"] == "interactive"
    assert 0 < stream["last_gap_us"] <= stream["worst_gap_us"]
    assert 2000 < stream["middle_gap_us"] < 50000
    assert stream["bound_us"] == state["engine"]["gap_us"] > 0
    assert state["health"] == "ok" and state["tenants"][0]["name"] == "default"
    assert state["memory"]["pages_total"] > 0
    assert state["step_model"]["decode"]["steps"] > 0


def test_metrics_by_tenant_and_class(server, load):
    time.sleep(1)
    text = server.http.get("/metrics").text
    for class_ in ("interactive", "batch"):
        assert f'headway_gap_seconds_count{{model_name="sim",engine="0",tenant="default",class="{class_}"}}' in text
    assert server.metric("headway_gap_bound_seconds") >= 0.05
    assert server.metric("headway_tenant_device_seconds_total") > 0
    kinds = server.metric("headway_step_seconds_total")
    assert abs(kinds - server.metric("headway:busy_seconds_total")) < 0.2 + 0.1 * kinds
    assert server.metric("headway_input_output_ratio") > 0
    assert server.metric("headway_roof_ratio") == 0  # sim has no roof
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)), "a family stands in two places"


def test_a_tenant_that_a_reload_brings_has_its_series(serve, tmp_path):
    config = tmp_path / "headway.ini"
    config.write_text("[tenant first]\n")
    server = serve("--runner", "sim:reply_tokens=30", "--config", config)
    assert 'headway_tenant_running{model_name="sim",engine="0",tenant="first"} 0.0' in server.http.get("/metrics").text
    config.write_text("[tenant first]\n[tenant second]\nclass = batch\n")
    server.process.send_signal(signal.SIGHUP)
    wanted = 'headway_tenant_requests_total{model_name="sim",engine="0",tenant="second"} '
    end = time.monotonic() + 10
    while wanted not in server.http.get("/metrics").text and time.monotonic() < end:
        time.sleep(0.1)
    answer = server.post("/v1/completions", {"prompt": "hi", "max_tokens": 20},
                         headers={"x-llm-d-inference-fairness-id": "second"})
    assert answer.status_code == 200
    text = server.http.get("/metrics").text
    assert wanted + "1.0" in text
    assert 'headway_gap_seconds_count{model_name="sim",engine="0",tenant="second",class="batch"} 19' in text
    assert [t["name"] for t in server.http.get("/debug/state").json()["tenants"]] == ["default", "first", "second"]


def test_health_is_ok_beside_work(server, load):
    assert server.http.get("/health").json() == {"status": "ok"}


def test_debug_needs_the_key(serve):
    server = serve("--runner", "sim", "--api-key", "secret")
    for path in ("/debug/state", "/debug/steps", "/debug/curves", "/debug/trace?seconds=1"):
        assert server.http.get(path).status_code == 401, path
    assert server.http.get("/debug/state", headers={"Authorization": "Bearer secret"}).status_code == 200
    assert server.http.get("/").status_code == 200


def test_curves_come_from_the_file(serve, tmp_path):
    curves = {"format": "headway-curves-1", "policies": []}
    (tmp_path / "curves.json").write_text(json.dumps(curves))
    (tmp_path / "headway.conf").write_text("[server]\n")
    assert serve("--runner", "sim").http.get("/debug/curves").status_code == 404
    by_flag = serve("--runner", "sim", "--curves", tmp_path / "curves.json")
    assert by_flag.http.get("/debug/curves").json() == curves
    by_config = serve("--runner", "sim", "--config", tmp_path / "headway.conf")
    assert by_config.http.get("/debug/curves").json() == curves
    (tmp_path / "curves.json").unlink()
    assert by_config.http.get("/debug/curves").status_code == 404
    (tmp_path / "curves.json").write_bytes(b" " * (5 << 20))
    assert by_config.http.get("/debug/curves").status_code == 500


def test_assets_are_kept_and_asked_for_again(sim):
    page = sim.http.get("/")
    assert page.headers["content-type"].startswith("text/html") and "<h1>Headway</h1>" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    scripts = ("app.js", "api.js", "chat.js", "curves.js", "draw.js", "record.js", "streams.js", "words.js")
    for name in (*scripts, "style.css", "logo.svg"):
        answer = sim.http.get("/dashboard/" + name)
        assert answer.status_code == 200 and answer.content, name
        again = sim.http.get("/dashboard/" + name, headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304 and not again.content
        assert "content-length" not in again.headers
        head = sim.http.head("/dashboard/" + name)
        assert head.headers["content-length"] == str(len(answer.content)) and not head.content
    assert sim.http.get("/", headers={"If-None-Match": '"other"'}).status_code == 200
    assert sim.http.get("/dashboard/nothing.js").status_code == 404
    assert sim.http.get("/dashboard/../server.c").status_code == 404
    assert sim.post("/", {}).status_code == 405
