"""serve --runner sim --hardware H --model-shape M: the API at the pace of that machine, by the real clock."""

import json
import statistics
import subprocess
import time

import pytest

from conftest import HEADWAY, events

M4 = ("--runner", "sim", "--hardware", "m4-max", "--model-shape", "qwen3.6-35b-a3b:mxfp8")


def stream(server, prompt, tokens):
    """Time to the first token and the gaps after it, in milliseconds."""
    body = {"model": "x", "prompt": prompt, "max_tokens": tokens, "stream": True}
    start = time.monotonic()
    times = []
    with server.http.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.status_code == 200
        for event in events(answer.iter_lines()):
            if isinstance(event, dict) and event["choices"] and event["choices"][0]["text"]:
                times.append((time.monotonic() - start) * 1e3)
    return times[0], [b - a for a, b in zip(times, times[1:])]


def test_the_machine_sets_the_pace(serve):
    server = serve(*M4)
    models = server.http.get("/v1/models").json()["data"]
    assert models[0]["id"] == "qwen3.6-35b-a3b:mxfp8"
    _, gaps = stream(server, "hi", 60)
    assert 13.8 < statistics.median(gaps) < 19  # 65 tokens a second, and what a busy machine adds
    alone, _ = stream(server, "a" * 2000, 2)
    again, _ = stream(server, "a" * 2000, 2)
    assert 650 < alone < 1300  # some 0.8 s a chunk of 2,048
    assert again < alone / 2  # out of the prefix cache
    log = "".join(server.log)
    assert "simulated m4-max" in log and "65 tok/s" in log and "context 262144 tokens, 16 streams" in log


def test_a_measured_box(serve, tmp_path):
    steps = {
        "format": "headway-steps-1",
        "weight_bytes": 1000000,
        "prefill": [{"tokens": 1, "position": 0, "us": 20000}, {"tokens": 512, "position": 0, "us": 300000}],
        "decode": [{"rows": 1, "position": 0, "us": 20000}, {"rows": 16, "position": 0, "us": 30000}],
    }
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(steps))
    server = serve("--runner", "sim:reply_tokens=500", "--hardware", path)
    first, gaps = stream(server, "b" * 500, 30)
    assert 280 < first < 600
    assert 18 < statistics.median(gaps) < 25


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--hardware", "m4-max"), "--hardware: only with --runner sim"),
        (("--model-shape", "llama-3.1-8b"), "--model-shape: only with --runner sim"),
        (("--runner", "sim", "--model-shape", "llama-3.1-8b"), "--model-shape: needs --hardware"),
        (("--runner", "sim", "--hardware", "m4-max"), "--model-shape: missing"),
        (("--runner", "sim", "--hardware", "m4-mox", "--model-shape", "llama-3.1-8b:q4_0"), "m4-max"),
        ((*M4[:4], "--model-shape", "llama-3.1-9b:q4_0"), "llama-3.1-8b"),
        ((*M4[:4], "--model-shape", "llama-3.1-8b:q9"), "q4_0"),
        ((*M4, "--parallel", "4000"), "--parallel 4000"),
        (("--runner", "sim", "--hardware", "rtx-4090", *M4[4:]), "does not fit"),
        (("--runner", "sim", "--hardware", "/no/such.json"), "no such file"),
    ],
)
def test_what_cannot_be_is_refused(flags, words):
    done = subprocess.run([HEADWAY, "serve", "--port", "0", *flags], capture_output=True, text=True, timeout=20)
    assert done.returncode in (1, 2)
    assert words in done.stderr and len(done.stderr.splitlines()) == 1
