"""headway tune on a simulated runner: four files, a choice that follows from the points, a config that serve takes."""

import html.parser
import json
import os
import re
import subprocess

import pytest

from browser import Browser, find_chromium
from conftest import HEADWAY, Server

# 2,000 tokens a second and steps of 10 ms: a chunk of 64 takes 32 ms, one of 512 takes 256 ms.
SIM = "sim:prefill_tokens_per_s=2000,decode_base_us=9900,decode_row_us=100,block_tokens=4,context_length=4096"
POLICIES = ["prefill-first", "decode-first", "chunked", "gate", "cadence"]
FILES = ["curves.html", "curves.json", "headway.conf", "steps.json"]


def tune(*arguments, code=0):
    done = subprocess.run([HEADWAY, "tune", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "new"
    done = tune("--runner", SIM, "--quick", "--out", path)
    assert f"headway serve --config {path}/headway.conf" in done.stdout
    assert "cadence, chunk 64\n" in done.stderr and "\r" not in done.stderr and "\033" not in done.stderr
    return path


@pytest.fixture(scope="module")
def curves(folder):
    return json.loads((folder / "curves.json").read_text())


def points(curves, policy):
    return next(p["points"] for p in curves["policies"] if p["policy"] == policy)


def test_four_files_and_nothing_else_are_written(folder):
    assert sorted(os.listdir(folder)) == FILES


def test_every_policy_has_its_curve(curves):
    assert curves["format"] == "headway-curves-1" and curves["quick"] is True
    assert [p["policy"] for p in curves["policies"]] == POLICIES
    assert curves["alone"]["document_ttft_ms"] == pytest.approx(curves["document_tokens"] / 2, rel=0.01)
    assert curves["alone"]["chat_tokens_per_s"] == pytest.approx(100, rel=0.01)
    assert all(q["starved"] and q["document_premium"] is None for q in points(curves, "decode-first"))
    first = points(curves, "prefill-first")
    assert [q["chunk"] for q in first] == [64, 256, 512]
    for q in first:  # a chunk and a step between two tokens
        assert q["chat_gap_ms"] == pytest.approx(q["chunk"] / 2 + 10, abs=1)
        assert q["document_premium"] == pytest.approx(1 + 20 / q["chunk"], abs=0.05)
    for q in points(curves, "cadence"):
        assert q["gap_p50_ms"] <= q["gap_p99_ms"] <= curves["bound_ms"]


def test_the_sweet_spot_is_the_cheapest_that_keeps_bound_and_share(curves):
    kept = [(p["policy"], q) for p in curves["policies"] for q in p["points"] if q["keeps_bound"]]
    for _, q in kept:
        assert q["gap_p99_ms"] <= curves["bound_ms"] and q["chat_tokens_per_s"] >= 0.9 * 0.25 * 100
    least = min(q["document_premium"] for _, q in kept)
    choice = curves["choice"]
    chosen = next(q for policy, q in kept if (policy, q["chunk"]) == (choice["policy"], choice["chunk"]))
    assert choice["keeps_bound"] and chosen["document_premium"] <= 1.05 * least


def test_bounds_and_shares_of_cadence_are_swept(curves):
    found = {(p["bound_ms"], p["chat_share"]): p for p in curves["bounds"]}
    assert set(found) == {(b, s) for b in (25, 50, 100) for s in (0, 0.5)}
    assert found[100, 0]["document_premium"] < found[50, 0]["document_premium"] < found[50, 0.5]["document_premium"]
    assert found[50, 0.5]["chat_tokens_per_s"] > 40 > found[50, 0]["chat_tokens_per_s"]


def test_steps_are_those_of_the_runner(folder):
    steps = json.loads((folder / "steps.json").read_text())
    assert steps["format"] == "headway-steps-1" and steps["read"] == []
    for chunk in steps["prefill"]:
        assert chunk["us"] == pytest.approx(chunk["tokens"] * 500, rel=0.01)
        assert chunk["us_least"] <= chunk["us"] <= chunk["us_most"] and chunk["repeats"] >= 1
    assert [d["rows"] for d in steps["decode"]] == [1, 2, 4, 8, 16]
    assert steps["decode"][-1]["us"] == pytest.approx(9900 + 1600, rel=0.01)


def test_serve_takes_the_config_and_shows_the_curves(folder, curves):
    server = Server("--config", folder / "headway.conf")
    try:
        log = "".join(server.log)
        assert f"policy {curves['choice']['policy']}" in log and "chat share 0.25" in log
        assert server.http.get("/debug/curves").json() == curves
        assert server.chat(max_tokens=4).status_code == 200
    finally:
        assert server.stop() == 0


def test_a_bound_of_the_operator_goes_into_the_config(tmp_path):
    tune("--runner", SIM, "--quick", "--out", tmp_path, "--gap-ms", 120, "--chat-share", 0)
    curves = json.loads((tmp_path / "curves.json").read_text())
    assert curves["bound_ms"] == 120 and curves["bound_auto"] is False
    text = (tmp_path / "headway.conf").read_text()
    assert "\ngap-ms = 120\n" in text and "\nchat-share = 0\n" in text and "\nrunner = sim:" in text
    server = Server("--config", tmp_path / "headway.conf")
    assert "gap bound 120 ms (asked for" in "".join(server.log)
    assert server.stop() == 0


def test_a_bound_that_the_box_cannot_keep_is_refused(tmp_path):
    done = tune("--runner", SIM, "--quick", "--out", tmp_path, "--gap-ms", 3, code=1)
    assert "the smallest bound is" in done.stderr.splitlines()[-1] and os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "--out DIR is needed"),
    (["--out", "x", "--gap-ms", "soon"], 2, "--gap-ms: 'soon'"),
    (["--out", "x", "--chat-share", "1.5"], 2, "--chat-share: '1.5'"),
    (["--out", "/dev/null/x", "--runner", "sim"], 1, "--out /dev/null/x: "),
    (["--out", "x", "--runner", "sam"], 2, '"sam"'),
    (["--out", "x", "--model", "/nowhere/m.gguf"], 1, "/nowhere/m.gguf"),
])
def test_wrong_flags_are_named(arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in tune(*arguments, code=code).stderr


class Tags(html.parser.HTMLParser):
    VOID = {"meta", "br", "path", "circle"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.open.pop() == tag or tag in ("p", "li")


def test_the_page_is_whole_and_loads_nothing(folder):
    text = (folder / "curves.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not re.search(r"https?:|src=|url\(|<script|@import|\bnan\b", text)
    pictures = [attrs for tag, attrs in tags.seen if tag == "svg"]
    assert len(pictures) == 10 and all(p["role"] == "img" and p["aria-label"] for p in pictures)


@pytest.mark.skipif(not find_chromium(), reason="no Chromium")
def test_the_page_fits_wide_and_narrow_light_and_dark(folder):
    page = Browser(find_chromium())
    try:
        page.open((folder / "curves.html").as_uri())
        ground = "getComputedStyle(document.body).backgroundColor"
        page.prefer(color_scheme="light")
        light = page.eval(ground)
        page.prefer(color_scheme="dark")
        assert page.eval(ground) != light
        for width in (1360, 390):
            page.resize(width, 900)
            assert page.eval("document.documentElement.scrollWidth") <= width
        assert page.problems == []
        assert page.eval("document.querySelectorAll('.mark').length") >= 3
    finally:
        page.close()


def test_reuse_of_a_running_server_decides_between_cache_and_quantization(tmp_path):
    server = Server("--runner", "sim:reply_tokens=20,decode_base_us=200")
    empty = tune("--runner", SIM, "--quick", "--reuse", server.url, "--out", tmp_path / "none", code=1)
    assert "has looked no prompt up" in empty.stderr
    for _ in range(10):
        assert server.post("/v1/completions", {"prompt": "a word " * 100, "max_tokens": 20}).status_code == 200
    done = tune("--runner", SIM, "--quick", "--reuse", server.url, "--out", tmp_path / "url")
    assert server.stop() == 0
    assert "for prompts of 700 tokens and answers of 20:" in done.stdout
    assert re.search(r"at a reuse of (8[5-9]|90)% \(measured\)", done.stdout) and "Cache first" in done.stdout
    cache = json.loads((tmp_path / "url" / "curves.json").read_text())["cache"]
    assert cache["read_ms"] == pytest.approx(350, rel=0.05) and 0.85 < cache["reuse"] <= 0.9
    assert cache["cache_spares_ms"] == pytest.approx(cache["read_ms"] * cache["reuse"], rel=0.05)
    given = tune("--runner", SIM, "--quick", "--reuse", "0.5", "--out", tmp_path / "given")
    assert "at a reuse of 50% (as given)" in given.stdout
    assert "Prefix cache or quantized KV" in (tmp_path / "given" / "curves.html").read_text()
    wrong = tune("--runner", SIM, "--reuse", "most", "--out", tmp_path / "wrong", code=2)
    assert "--reuse: 'most' is neither" in wrong.stderr
