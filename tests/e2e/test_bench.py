"""headway bench against a simulated server: every workload's report has sane numbers, the page loads nothing."""

import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from browser import Browser, find_chromium
from conftest import HEADWAY, ROOT, Server

STEP_MS = 4
SIM = f"sim:decode_base_us={STEP_MS * 1000},decode_row_us=1,prefill_tokens_per_s=40000,reply_tokens=100000"


def bench(*arguments, code=0, timeout=120, env=None):
    done = subprocess.run(
        [HEADWAY, "bench", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def quick():
    server = Server("--runner", SIM)
    yield server
    assert server.stop() == 0, "".join(server.log)


def cell_of(report, role, phase=-1):
    return next(c for c in report["phases"][phase]["cells"] if c["role"] == role)


def check_sane(report):
    assert report["schema"] == "headway-bench/1" and report["model"] == "sim"
    assert 4 < report["tokens_per_word"] < 7  # a byte is a token there
    for phase in report["phases"]:
        assert phase["end_s"] > phase["start_s"]
        for cell in phase["cells"]:
            assert cell["requests"] == cell["done"] + cell["refused"] + cell["failed"] + cell["cut"]
            assert cell["failed"] == 0
            for name in ("ttft_ms", "itl_ms", "e2e_ms"):
                q = cell[name]
                assert q["count"] == 0 or 0 < q["median"] <= q["p90"] <= q["p99"] <= q["max"]
            if cell["itl_ms"]["count"]:
                assert STEP_MS * 0.8 < cell["itl_ms"]["median"] < 100
    for row in report["requests"]:
        assert row["intended_s"] <= row["sent_s"] <= row["end_s"]
        if row["outcome"] == "done":
            assert row["status"] == 200 and row["deltas"] <= row["output_tokens"]


@pytest.mark.alone
def test_mixed_compares_each_load_with_itself_alone(quick, tmp_path):
    done = bench("mixed", "--url", quick.url + "/v1/", "--duration", 10, "--scale", 0.5, "--json", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    check_sane(report)
    assert [p["name"] for p in report["phases"]] == ["agents alone", "documents alone", "together"]
    assert set(report["slowdown"]) == {"agents", "documents"}
    documents = cell_of(report, "documents")
    # Calibrated: half of 3,600 to 4,400 tokens in, 48 out.
    prompts = [r["prompt_tokens"] for r in report["requests"] if r["role"] == "documents" and r["outcome"] == "done"]
    assert documents["done"] > 3 and all(1700 < p < 2300 for p in prompts)
    assert 30 < documents["input_output_ratio"] < 60
    assert cell_of(report, "agents")["worst_gap_at_s"] >= report["phases"][2]["start_s"]
    assert "against alone" in done.stdout and "canary" in done.stdout
    assert "together" in done.stderr  # plain progress lines where there is no terminal


@pytest.mark.alone
def test_agents_go_on_in_their_sessions(quick, tmp_path):
    bench("agents", "--url", quick.url, "--requests", 12, "--agents", 3, "--scale", 0.2, "--json", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    check_sane(report)
    assert len(report["requests"]) == 12
    turns = {(r["session"], r["turn"]): r for r in report["requests"]}
    later = [(r, turns[r["session"], r["turn"] - 1]) for r in report["requests"] if r["turn"]]
    assert later
    for row, before in later:  # the prompt grows by the answer and by what the turn adds
        assert row["prompt_tokens"] > before["prompt_tokens"] + before["output_tokens"]
        assert row["intended_s"] > before["end_s"]


@pytest.mark.alone
def test_documents_in_an_open_loop(quick, tmp_path):
    bench("documents", "--url", quick.url, "--rate", 5, "--requests", 15, "--scale", 0.2, "--seed", 4,
          "--json", tmp_path / "a.json")  # fmt: skip
    bench("documents", "--url", quick.url, "--rate", 5, "--requests", 15, "--scale", 0.2, "--seed", 4,
          "--json", tmp_path / "b.json")  # fmt: skip
    a, b = (json.loads((tmp_path / f"{x}.json").read_text()) for x in "ab")
    check_sane(a)
    assert len(a["requests"]) == 15
    assert [r["prompt_tokens"] for r in a["requests"]] == [r["prompt_tokens"] for r in b["requests"]]
    times = lambda report: sorted(r["intended_s"] for r in report["requests"])
    assert max(abs(x - y) for x, y in zip(times(a), times(b))) < 0.1  # the plan follows from the seed


@pytest.mark.alone
def test_a_trace_is_replayed_with_its_lengths(quick, tmp_path):
    trace = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 200 * i, "input_length": 600 + 50 * i, "output_length": 5, "hash_ids": [1, i + 2]}
        for i in range(8)
    ]
    trace.write_text("".join(json.dumps(r) + "\n" for r in rows))
    bench("trace", trace, "--url", quick.url, "--speed", 2, "--json", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    check_sane(report)
    for i, row in enumerate(sorted(report["requests"], key=lambda r: r["session"])):
        assert row["intended_s"] == pytest.approx(i * 0.1, abs=1e-3)
        assert row["prompt_tokens"] == pytest.approx(600 + 50 * i, rel=0.1)
        assert row["output_tokens"] == 5
    trace.write_text(json.dumps(rows[0]) + "\n{bad\n")
    done = bench("trace", trace, "--url", quick.url, code=2)
    assert "trace.jsonl: line 2" in done.stderr


@pytest.mark.alone
def test_the_page_stands_alone(quick, tmp_path):
    page = tmp_path / "r.html"
    bench("mixed", "--url", quick.url, "--duration", 3, "--scale", 0.2, "--html", page)
    text = page.read_text()
    for outside in (r"\bsrc\s*=", r"<link", r"@import", r"url\(", r"\bfetch\(", r"XMLHttpRequest", r"\bimport\b"):
        assert not re.search(outside, text), outside
    links = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert links <= {quick.url}
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))
    check_sane(data)
    row = next(r for r in data["requests"] if r["outcome"] == "done")
    assert len(row["at"]) == len(row["text"]) == row["deltas"]
    assert row["at"][0] / 10 == pytest.approx(row["ttft_ms"], abs=0.1)


@pytest.mark.alone
@pytest.mark.skipif(not find_chromium(), reason="no Chromium")
def test_the_page_replays_the_streams_on_the_recorded_clock(quick, tmp_path):
    page = tmp_path / "r.html"
    bench("mixed", "--url", quick.url, "--duration", 10, "--scale", 0.2, "--html", page)
    browser = Browser(find_chromium(), 1160, 1000)
    try:
        browser.open(f"file://{page}#t=0.1")
        assert browser.eval("document.querySelectorAll('#plots svg').length") == 5
        assert browser.eval("document.querySelectorAll('#cells tbody tr').length") == 4
        clock = "parseFloat(document.getElementById('clock').textContent)"
        words = "[...document.querySelectorAll('.stream .words')].map((e) => e.textContent.length).join()"
        assert browser.eval(clock) == 0.1 and browser.eval("document.getElementById('play').textContent") == "Play"
        browser.eval("document.body.focus()")
        browser.press(" ", " ")  # the space bar plays
        before, seen, start = browser.eval(clock), {browser.eval(words)}, time.monotonic()
        while time.monotonic() < start + 3:
            seen.add(browser.eval(words))
        moved, passed = browser.eval(clock) - before, time.monotonic() - start
        assert passed * 0.7 - 0.3 < moved < passed * 1.3 + 0.3
        assert len(seen) > 10  # text came piece by piece
        browser.press(" ", " ")
        stopped = browser.eval(clock)
        time.sleep(0.3)
        assert browser.eval(clock) == stopped
        browser.eval(
            "[...document.querySelectorAll('#jumps button')].find((b) => b.textContent === 'documents alone').click()"
        )
        assert "documents alone" in browser.eval("document.getElementById('clock').textContent")
        names = browser.accessible()
        assert ("button", "Play") in names and ("slider", "Time in the run") in names
        assert any(role == "image" and "Worst gap" in name for role, name in names)
        light = browser.eval("getComputedStyle(document.body).backgroundColor")
        browser.prefer(color_scheme="dark")
        assert browser.eval("getComputedStyle(document.body).backgroundColor") != light
        browser.resize(390, 844)
        assert browser.eval("document.documentElement.scrollWidth <= innerWidth")
        browser.screenshot(tmp_path / "narrow.png", whole=False)
        assert browser.problems == []
    finally:
        browser.close()


def test_refusals_are_told_by_reason(serve, tmp_path):
    server = serve("--runner", SIM, "--ctx", 4096)
    done = bench("documents", "--url", server.url, "--scale", 2, "--duration", 2, code=1)  # longer than the context
    assert "requests in a row failed: context_length_exceeded" in done.stderr
    assert re.search(r"failed +[0-9]+ x documents, status 400: context_length_exceeded", done.stdout)
    done = bench("documents", "--url", server.url, "--requests", 2, "--json", tmp_path / "r.json")
    assert "prompt lengths are scaled by" in done.stderr  # by itself it asks for what fits
    assert json.loads((tmp_path / "r.json").read_text())["scale"] < 1


class Peer(http.server.BaseHTTPRequestHandler):
    """A server of another make: names no context, keeps quiet about usage unless told, refuses now and then."""

    protocol_version = "HTTP/1.1"
    usage, refuse, seen = True, 0, []
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(200, b'{"object":"list","data":[{"id":"other","object":"model"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            self.seen.append(body)
            refused = type(self).refuse > 0 and len(self.seen) > 2
            type(self).refuse -= refused
        if refused:
            error = b'{"error":{"message":"busy","type":"rate_limit","code":429}}'
            self.reply(429, error, Retry_After=1, x_llm_d_request_dropped_reason="tenant_queue_full")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        words = sum(len(m["content"].split()) for m in body["messages"])
        usage = {"prompt_tokens": 9 + 2 * words, "completion_tokens": body["max_tokens"]} if self.usage else None
        self.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
        self.wfile.write(b": still here\r\n\r\n")
        for i in range(body["max_tokens"]):
            time.sleep(0.004)
            self.event({"choices": [{"delta": {"reasoning_content" if i < 2 else "content": f" w{i}"}}], "usage": None})
        self.event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, data):
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\r\n\r\n")


@pytest.fixture
def peer():
    class Own(Peer):
        seen, lock = [], threading.Lock()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Own.url = f"http://127.0.0.1:{server.server_port}"
    yield Own
    server.shutdown()


def test_a_server_of_another_make_is_measured_too(peer, tmp_path):
    peer.refuse = 2
    bench(
        "documents",
        "--url",
        peer.url,
        "--requests",
        6,
        "--scale",
        0.05,
        "--json",
        tmp_path / "r.json",
        "--tier",
        "flex",
    )
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["model"] == "other" and report["tokens_per_word"] == pytest.approx(2, rel=0.02)
    (refusal,) = report["refusals"]
    assert refusal["reason"] == "tenant_queue_full" and refusal["count"] == 2 and refusal["retry_after_min_s"] == 1
    done = [r for r in report["requests"] if r["outcome"] == "done"]
    assert len(done) == 4 and all(r["deltas"] == r["output_tokens"] == 48 for r in done)
    for row in done:  # 0.05 of 3,600 to 4,400 tokens, by its own count
        assert 175 <= row["prompt_tokens"] <= 225
    assert 3.9 < cell_of(report, "documents")["itl_ms"]["median"] < 20
    known = {"model", "messages", "max_tokens", "temperature", "stream", "stream_options", "ignore_eos", "service_tier"}
    assert all(set(body) <= known for body in peer.seen)
    assert all(body["service_tier"] == "flex" for body in peer.seen)


def test_a_server_that_tells_no_usage_is_measured_by_its_deltas(peer, tmp_path):
    peer.usage = False
    bench(
        "agents",
        "--url",
        peer.url,
        "--requests",
        3,
        "--scale",
        0.05,
        "--ignore-eos",
        "off",
        "--json",
        tmp_path / "r.json",
    )
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["tokens_per_word"] == 1
    assert all(r["output_tokens"] == r["deltas"] > 0 for r in report["requests"] if r["outcome"] == "done")
    assert not any("ignore_eos" in body for body in peer.seen)


def test_ctrl_c_ends_the_run_with_a_report(quick):
    process = subprocess.Popen(
        [HEADWAY, "bench", "agents", "--url", quick.url, "--duration", "60", "--scale", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while "agents" not in process.stderr.readline():
        pass
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopped before its end" in out and re.search(r"^agents +agents +\d+/\d+", out, re.M)


def test_keys_are_sent_to_who_asks(serve):
    server = serve("--runner", SIM, "--api-key", "one,two")
    assert "give --key" in bench("documents", "--url", server.url, "--requests", 1, code=2).stderr
    bench(
        "mixed",
        "--url",
        server.url,
        "--requests",
        1,
        "--duration",
        1,
        "--scale",
        0.1,
        "--key",
        "one",
        "--doc-key",
        "two",
    )
    bench("documents", "--url", server.url, "--requests", 1, "--scale", 0.1, env={"HEADWAY_API_KEY": "two"})


def test_wrong_flags_are_named():
    assert "--rate: 'fast' is not a number" in bench("agents", "--rate", "fast", code=2).stderr
    assert "--ignore-eos: 'maybe'" in bench("agents", "--ignore-eos", "maybe", code=2).stderr
    assert "127.0.0.1:9" in bench("agents", "--url", "http://127.0.0.1:9", code=1).stderr
    assert "/no/such.jsonl" in bench("trace", "/no/such.jsonl", code=1).stderr
    assert "FILE" in bench("trace", code=2).stderr
    for workload in ("agents", "documents", "mixed", "trace"):
        text = bench(workload, "--help").stdout
        assert f"usage: headway bench {workload}" in text
        assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80


@pytest.mark.alone
def test_an_independent_client_measures_the_same(serve, tmp_path):
    shared = pathlib.Path(os.environ.get("HEADWAY_SHARED", ROOT.parent / "shared"))
    client = shared / "bench" / "incident.py"
    if not client.exists():
        pytest.skip("no ../shared")
    server = serve("--runner", SIM.replace("4000", "12000", 1))
    load = ["agents", "--url", server.url, "--agents", 1, "--requests", 4, "--scale", 0.1]
    words = [server.url, "--doc-words", "300", "--chat-tokens", "60", "--json"]
    apart = []
    for _ in range(3):  # other work on the machine may change between the two
        bench(*load, "--json", tmp_path / "r.json")
        ours = cell_of(json.loads((tmp_path / "r.json").read_text()), "agents")["itl_ms"]["median"]
        other = subprocess.run(
            [sys.executable, client, *words], capture_output=True, text=True, timeout=120, check=True
        )
        theirs = json.loads(other.stdout)["solo_itl_ms"]
        print(f"ITL median: bench {ours:.2f} ms, incident.py {theirs:.2f} ms")
        apart.append(abs(ours / theirs - 1))
        if apart[-1] <= 0.05:
            break
    assert min(apart) <= 0.05


@pytest.mark.alone
def test_breakdown_sums_to_the_wall():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    model = cache / "headway" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        pytest.skip("the default model is not there")
    done = bench(
        "--breakdown", "--model", model, "--prefill", "256", "--depth", "512", "--tokens", 8, "--repeat", 2, "--json"
    )
    cases = json.loads(done.stdout)
    assert [(c["what"], c["at"]) for c in cases] == [("prefill", 256), ("decode", 512)]
    for case in cases:
        assert sum(op["ms"] for op in case["ops"].values()) == pytest.approx(case["sum_ms"], rel=1e-3)
        assert case["sum_ms"] == pytest.approx(case["wall_ms"], rel=0.03)
        assert {"qkv", "attention", "out", "ffn up", "ffn down", "norms", "head", "sampling", "between ops"} <= set(
            case["ops"]
        )
        assert case["ops"]["qkv"]["calls"] == 30 and case["ops"]["ffn down"]["bytes"] > 5e6
