"""headway simulate: the incident, a day, sweeps, several boxes; the same seed, the same bytes; wrong input is named."""

import concurrent.futures
import html.parser
import json
import re
import subprocess

import httpx
import pytest

from browser import Browser, find_chromium
from conftest import HEADWAY

BOX = ["--model", "qwen3.6-35b-a3b:mxfp8", "--hardware", "m4-max"]
FITTED = [*BOX, "--fit-decode", "65", "--fit-document", "44", "--fit-chunk", "1.5"]
INCIDENT = ["--requests", "1", "--workers", "1", "--agents", "1", "--document-tokens", "60000", "--prompt-tokens",
            "23000", "--output-tokens", "8000"]


def simulate(*arguments, code=0):
    done = subprocess.run([HEADWAY, "simulate", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def report(path, *arguments):
    done = simulate(*arguments, "--json", path)
    return json.loads(path.read_text()), done


def test_the_incident_is_one_command(tmp_path):
    first, done = report(tmp_path / "a.json", "mixed", *FITTED, *INCIDENT, "--policy", "prefill-first")
    reading = first["simulation"]["reading"]
    assert reading["documents"] == 1
    assert reading["chat_tok_s"] == pytest.approx(0.67, rel=0.1)
    assert reading["chat_alone_tok_s"] == pytest.approx(65, rel=0.05)
    assert reading["mean_gap_ms"] * reading["chat_tok_s"] == pytest.approx(1000, rel=0.01)
    assert reading["longest_gap_ms"] >= reading["time_gap_ms"] >= reading["mean_gap_ms"]
    assert reading["premium"] == pytest.approx(
        reading["document_ttft_s"] / reading["document_alone_ttft_s"] - 1, abs=1e-4)
    assert "a chat gets 0.6" in done.stdout
    gate = report(tmp_path / "b.json", "mixed", *FITTED, *INCIDENT, "--policy", "gate")[0]["simulation"]["reading"]
    assert gate["chat_tok_s"] > 5 * reading["chat_tok_s"]
    assert gate["longest_gap_ms"] <= reading["longest_gap_ms"] * 1.01  # one chunk, however long the queue
    assert gate["median_gap_ms"] < 20  # full speed in the windows


def test_the_report_is_that_of_bench(tmp_path):
    page = tmp_path / "page.html"
    data, done = report(tmp_path / "a.json", "mixed", *BOX, "--html", page)
    assert data["schema"] == "headway-bench/1" and data["workload"] == "simulate mixed" and data["simulated"] is True
    assert data["unix_seconds"] == 0 and "m4-max" in data["url"] and "cadence" in data["url"]
    assert [p["name"] for p in data["phases"]] == ["agents alone", "documents alone", "together"]
    cells = {c["role"]: c for c in data["phases"][2]["cells"]}
    assert cells["documents"]["done"] == 9 and cells["agents"]["itl_ms"]["max"] < 2 * data["bounds"]["gap_ms"]
    assert "canary" not in done.stdout and re.search(r"^simulated .* steps, in ", done.stderr, re.M)
    assert '"simulated":true' in page.read_text()
    for row in data["requests"]:
        assert row["outcome"] in ("done", "cut")
        assert row["deltas"] <= row["output_tokens"] or row["outcome"] == "cut"


@pytest.mark.parametrize("load", [["agents", "--agents", 5], ["documents", "--rate", 0.3, "--requests", 30],
                                  ["mixed", "--boxes", 2, "--router", "prefix", "--duration", 40],
                                  ["mixed", "--split", "1:1", "--link", 10, "--duration", 40]])
def test_the_same_seed_gives_the_same_bytes(load, tmp_path):
    files = [tmp_path / n for n in ("a.json", "b.json", "c.json", "a.html", "b.html")]
    outs = [simulate(*load, *BOX, "--seed", seed, "--json", j, *(["--html", h] if h else []))
            for seed, j, h in ((5, files[0], files[3]), (5, files[1], files[4]), (6, files[2], None))]
    assert outs[0].stdout == outs[1].stdout and outs[0].stdout != outs[2].stdout
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    assert files[3].read_bytes() == files[4].read_bytes()


def test_a_day_has_ten_thousand_requests(tmp_path):
    data, done = report(tmp_path / "day.json", "mixed", *FITTED, "--day")
    cells = {c["role"]: c for c in data["phases"][0]["cells"]}
    assert cells["agents"]["done"] == 7000 and cells["documents"]["done"] == 3000
    assert 70 < sum(c["prompt_tokens"] for c in cells.values()) / sum(c["output_tokens"] for c in cells.values()) < 84
    assert 80000 < data["phases"][0]["end_s"] < 95000
    assert 0.3 < data["simulation"]["boxes"][0]["utilisation"] < 0.95


def test_replicas_and_a_split_say_what_each_box_did(tmp_path):
    one = report(tmp_path / "a.json", "documents", *BOX, "--workers", 8, "--requests", 32)[0]
    four = report(tmp_path / "b.json", "documents", *BOX, "--workers", 8, "--requests", 32, "--boxes", 4)[0]
    boxes = four["simulation"]["boxes"]
    assert [b["requests"] for b in boxes] == [8, 8, 8, 8]
    assert four["phases"][0]["end_s"] < one["phases"][0]["end_s"] / 2.5
    split, done = report(tmp_path / "c.json", "documents", *BOX, "--workers", 8, "--requests", 32, "--split", "2:1",
                         "--link", 12.5)
    own = split["simulation"]
    tokens = sum(r["prompt_tokens"] for r in split["requests"])
    assert [b["decodes"] for b in own["boxes"]] == [False, False, True]
    assert own["link"]["transfers"] == 32
    assert own["link"]["bytes"] == tokens * own["costs"]["kv_token_bytes"] + 32 * own["costs"]["state_bytes"]
    assert own["link"]["busy_s"] == pytest.approx(own["link"]["bytes"] / 12.5e9, rel=0.01)
    assert "hand-overs" in done.stdout


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.open = {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in ("meta", "path", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("meta", "path", "circle"):
            assert self.open.pop() == tag


def test_a_sweep_is_a_table_an_array_and_curves(tmp_path):
    table, page = tmp_path / "s.json", tmp_path / "s.html"
    done = simulate("mixed", *FITTED, *INCIDENT, "--sweep", "chunk=256,512,1024,2048", "--by",
                    "policy=prefill-first,cadence", "--json", table, "--html", page)
    points = json.loads(table.read_text())
    assert [(p["policy"], p["chunk"]) for p in points] == [
        (policy, chunk) for policy in ("prefill-first", "cadence") for chunk in (256, 512, 1024, 2048)]
    assert len(done.stdout.splitlines()) == 11
    first, cadence = points[:4], points[4:]
    for small, large in zip(first, first[1:]):  # the two curves: documents gain by large chunks, chats lose
        assert small["document_ttft_s"] > large["document_ttft_s"]
        assert small["chat_gap_worst_ms"] < large["chat_gap_worst_ms"]
    assert max(p["chat_gap_worst_ms"] for p in cadence) < min(p["chat_gap_worst_ms"] for p in first)
    text = page.read_text()
    parsed = Page(text)
    assert parsed.open == [] and parsed.tags["svg"] >= 3 and "<script" not in text and "http" not in text
    chromium = find_chromium()
    if chromium:
        browser = Browser(chromium)
        try:
            browser.open(page.as_uri())
            assert browser.problems == []
        finally:
            browser.close()


def test_a_point_that_cannot_be_says_why(tmp_path):
    simulate("mixed", *BOX, "--sweep", "gap-ms=5,100", "--json", tmp_path / "s.json")
    refused, ran = json.loads((tmp_path / "s.json").read_text())
    assert "the smallest bound is" in refused["problem"] and refused["chat_gap_ms"] is None
    assert ran["problem"] is None and ran["chat_gap_worst_ms"] < 110


def test_a_trace_keeps_its_times_and_its_blocks(tmp_path):
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 2000 * i, "input_length": 2048, "output_length": 20, "hash_ids": [1, 2, 3, 10 + i]}
            for i in range(20)]
    trace.write_text("".join(json.dumps(r) + "\n" for r in rows))
    data = report(tmp_path / "t.json", "trace", trace, "--model", "llama-3.1-8b:q4_0", "--hardware", "rtx-4090")[0]
    assert len(data["requests"]) == 20 and all(r["outcome"] == "done" for r in data["requests"])
    assert [round(r["intended_s"]) for r in data["requests"]] == list(range(0, 40, 2))
    assert data["requests"][0]["cached_tokens"] == 0
    assert all(r["cached_tokens"] == 3 * 512 for r in data["requests"][1:])


@pytest.mark.parametrize("arguments, words", [
    ([], "agents, documents, mixed or trace"),
    (["chats"], "'chats' is not a load"),
    (["mixed"], "--hardware: missing"),
    (["mixed", "--hardware", "m4-max"], "--model: missing"),
    (["mixed", "--model", "gpt-9", "--hardware", "m4-max"], 'model "gpt-9" is not in the catalogue'),
    (["mixed", "--model", "qwen3.6-35b-a3b", "--hardware", "m9"], 'hardware "m9"'),
    (["mixed", "--model", "llama-3.1-405b:f16", "--hardware", "m4-max"], "does not fit"),
    (["mixed", "--model", "qwen3.6-35b-a3b", "--hardware", "/no/steps.json"], "no such file"),
    (["mixed", "--hardware", "/dev/zero"], "larger than 64 MB"),
    (["mixed", "--hardware", "/dev/null"], "/dev/null: empty"),
    (["mixed", "--hardware", "/tmp/"], "cannot be read"),
    (["mixed", *BOX, "--policy", "fast"], "--policy: 'fast'"),
    (["mixed", *BOX, "--gap-ms", "2"], "the smallest bound is"),
    (["mixed", *BOX, "--gap-ms", "-2"], "--gap-ms: '-2'"),
    (["mixed", *BOX, "--chat-share", "1.5"], "--chat-share: '1.5'"),
    (["mixed", *BOX, "--router", "random"], "--router: 'random'"),
    (["mixed", *BOX, "--split", "2"], "--split: '2'"),
    (["mixed", *BOX, "--split", "1:1", "--boxes", "2"], "--boxes"),
    (["mixed", *BOX, "--boxes", "0"], "--boxes: '0'"),
    (["mixed", *BOX, "--kv", "q3"], "--kv"),
    (["mixed", *BOX, "--kv-memory", "1M"], "--kv-memory"),
    (["mixed", *BOX, "--ctx", "100"], "the context holds 100"),
    (["mixed", *BOX, "--cache-sessions", "1000000"], "--cache-sessions 1000000"),
    (["mixed", *BOX, "--cache", "off", "--cache-sessions", "3"], "--cache off"),
    (["mixed", *BOX, "--fit-decode", "65"], "a fit needs all three"),
    (["mixed", *BOX, "--sweep", "chunk"], "--sweep: 'chunk'"),
    (["mixed", *BOX, "--sweep", "chunk=1,,2"], "a value is empty"),
    (["mixed", *BOX, "--sweep", "chunk=512,big"], "--chunk: 'big'"),
    (["mixed", *BOX, "--sweep", "model=a,b"], "'model' cannot be swept"),
    (["mixed", *BOX, "--by", "chunk=1"], "--sweep is missing"),
    (["agents", *BOX, "--day"], "--day"),
    (["mixed", *BOX, "--document-tokens", "1e9"], "--document-tokens: '1e9'"),
    (["mixed", *BOX, "--rate", "nan"], "--rate: 'nan'"),
])
def test_wrong_input_is_named_in_one_line(arguments, words):
    done = simulate(*arguments, code=2)
    assert done.stdout == "" and words in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("flag", ["--json", "--html"])
def test_a_report_that_cannot_be_written_is_said_before_the_run(tmp_path, flag):
    done = simulate("mixed", *BOX, flag, tmp_path / "absent" / "report", code=1)
    assert done.stdout == "" and "No such file" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_flood_whose_clients_hang_up_ends():
    """Documents are left by their clients in the middle of a chunk, and others turn up in their place."""
    done = simulate("mixed", "--model", "llama-3.1-8b:q4_0", "--hardware", "m4-max", "--rate", 100000)
    assert "requests" in done.stdout


def test_a_trace_that_is_not_there_is_no_wrong_call(tmp_path):
    done = simulate("trace", tmp_path / "none", *BOX, code=1)
    assert "none" in done.stderr and len(done.stderr.splitlines()) == 1


def test_help_is_narrow():
    for load in ("agents", "documents", "mixed", "trace"):
        assert max(map(len, simulate(load, "--help").stdout.splitlines())) <= 80


def test_the_costs_of_a_trace_are_those_of_the_server(serve, tmp_path):
    """A server whose steps take what it was told: its trace, and what a simulation of that trace says."""
    server = serve("--runner", "sim:decode_base_us=4000,decode_row_us=500,prefill_tokens_per_s=5000,reply_tokens=100",
                   "--parallel", "8")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        trace = pool.submit(httpx.get, f"{server.url}/debug/trace?seconds=4", timeout=30)
        for i in range(6):
            assert server.chat("the quick brown fox " * 20 * (i + 1), max_tokens=60).status_code == 200
        path = tmp_path / "trace.json"
        path.write_text(trace.result().text)
    simulate("agents", "--agents", "1", "--requests", "4", "--hardware", path, "--json", tmp_path / "r.json")
    (cell,) = json.loads((tmp_path / "r.json").read_text())["phases"][0]["cells"]
    assert 4.4 < cell["itl_ms"]["median"] < 6  # 4.5, and what a busy machine adds to a sleep
    empty = tmp_path / "empty.json"
    empty.write_text(httpx.get(f"{server.url}/debug/trace?seconds=1", timeout=30).text)
    done = simulate("agents", "--hardware", empty, code=2)
    assert "no decode step in it" in done.stderr and len(done.stderr.splitlines()) == 1


def test_prompts_hold_what_a_template_adds(tmp_path):
    """System, user and answers: 5 tokens each, and the 3 that open the next answer. A turn goes on within a page."""
    def requests(*more):
        dense = ["--model", "llama-3.1-8b:q4_0", "--hardware", "m4-max"]
        told, _ = report(tmp_path / "r.json", "agents", *dense, "--agents", 1, "--requests", 4, *more)
        return sorted(told["requests"], key=lambda r: (r["session"], r["turn"]))

    bare, marked = requests("--message-tokens", 0), requests()
    for a, b in zip(bare, marked):
        assert b["prompt_tokens"] - a["prompt_tokens"] == 5 * (2 * b["turn"] + 2) + 3
    assert any(r["cached_tokens"] % 16 for r in marked if r["turn"])
