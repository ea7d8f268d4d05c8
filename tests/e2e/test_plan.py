"""headway plan: the figures of both texts by the commands that print them, runs of others, and one clear line for
everything that cannot be."""

import json
import os
import re
import resource
import subprocess

import pytest

from conftest import HEADWAY

TEXT = ["--model", "qwen3.6-35b-a3b:mxfp8", "--hardware", "m4-max"]


def run(*arguments, code=0, env=None):
    done = subprocess.run([HEADWAY, "plan", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, env={**os.environ, **(env or {})})
    assert done.returncode == code, done.stdout + done.stderr
    return done


def plan(*arguments, env=None):
    return json.loads(run(*arguments, "--json", env=env).stdout)


def near(value, share=0.01):
    return pytest.approx(value, rel=share)


# ---- the texts ----


def test_the_ceiling_and_what_is_reached_of_it():
    decode = plan(*TEXT)["decode"]
    assert decode["ceiling_tok_s"] == near(180) and decode["reached"] == near(0.36, 0.02)
    assert (decode["estimate_tok_s"], decode["basis"], decode["n"]) == (65, "measured", 1)
    assert decode["low_tok_s"] <= 60 and decode["high_tok_s"] >= 70


def test_the_rows_of_the_table():
    rows = {row["name"]: row for row in json.loads(run("--list", "hardware", "--json").stdout)}
    wanted = {"m4": 14, "m5": 18, "m5-max": 73, "m3-ultra": 98, "m5-ultra": 145, "rtx-3090": 110, "rtx-4090": 120,
              "rtx-5090": 215, "a100": 240, "h100": 400, "h200": 570, "b200": 950, "b300": 950, "rubin": 1500}
    for name, tok_s in wanted.items():
        assert rows[name]["naive_tok_s"] == near(tok_s, 0.04), name
    assert rows["m5-ultra"]["rumoured"] and rows["groq-lpu"]["note"] and rows["m4-max"]["memory_gb"] == 128


@pytest.mark.parametrize("tokens, gb", [(23000, 0.47), (130000, 2.66)])
def test_kv_at_a_depth(tokens, gb):
    memory = plan(*TEXT, "--ctx", tokens)["memory"]
    assert memory["kv_bytes_per_token"] == 20480 and memory["kv_bytes"] == near(gb * 1e9)


def test_a_prefix_comes_back_from_the_disk():
    prefill = plan(*TEXT, "--prompt", 23000, "--ssd", 7)["prefill"]
    assert prefill["restore_ssd_s"] < 0.1 and prefill["ttft_cold_s"] > 10 and prefill["ttft_ssd_s"] < 1


def test_an_8b_model_on_an_m4_pro():
    for machine in (["--bandwidth", 273], ["--hardware", "m4-pro"]):
        decode = plan("--step-gb", 4.5, *machine)["decode"]
        assert decode["low_tok_s"] == near(45.5) and decode["high_tok_s"] == near(51.6)


def test_first_token_at_a_given_rate():
    assert plan("--prompt", 1000, "--prefill-tok-s", 500, "--overhead", 0)["prefill"]["ttft_s"] == near(2)


def test_a_rate_needs_no_machine_and_bytes_no_model():
    rate = plan("--prompt", 1000, "--prefill-tok-s", 500)
    assert rate["decode"] is None and rate["model"] is None and rate["hardware"]["name"] == "none"
    given = plan("--step-gb", 3, "--bandwidth", 100)
    assert given["decode"]["ceiling_tok_s"] == near(100 / 3) and given["memory"]["fits"] is None
    here = plan("--memory", 64, "--flops", 10)  # the rest is this machine's
    assert here["decode"]["estimate_tok_s"] > 0 and here["hardware"]["memory_gb"] == 64


def test_a_13b_model_on_an_a100():
    done = run("--step-gb", 26, "--hardware", "a100-40gb")
    assert "26.0 GB / 1,555 GB/s = 16.7 ms" in done.stdout
    decode = plan("--step-gb", 26, "--hardware", "a100-40gb")["decode"]
    assert decode["low_tok_s"] < 1000 / 22 < decode["high_tok_s"]


def test_what_is_no_device_is_flagged():
    ssd = plan("--hardware", "aidaptiv")
    assert 1 < ssd["decode"]["estimate_tok_s"] < ssd["decode"]["ceiling_tok_s"] < 5
    assert ssd["prefill"]["chunk_experts"] == near(256) and any("once a turn" in note for note in ssd["notes"])
    chips = plan("--hardware", "groq-lpu")
    assert chips["memory"]["fits"] is False and any("157 chips" in note for note in chips["notes"])


def test_the_deployment_fits_no_24_or_32_gb():
    load = ["--model", "qwen3.6-35b-a3b:mxfp8", "--ctx", 23000, "--sessions", 6]
    fits = plan(*load, "--hardware", "m4-max")["memory"]
    assert fits["fits"] and 40e9 < fits["needed_bytes"] < 50e9
    for name in ("m4", "m5", "rtx-3090", "rtx-4090", "rtx-5090"):
        memory = plan(*load, "--hardware", name)["memory"]
        assert memory["fits"] is False and memory["left_bytes"] < 0


def test_what_an_upgrade_buys():
    twice = plan(*TEXT)["twice"]
    assert twice["memory_decode"] == twice["matmul_decode"] == 1 and twice["bandwidth_decode"] == near(2)
    assert re.search(r"memory +\+0% +\+0% +\d", run(*TEXT).stdout)


def test_two_machines_side_by_side():
    compare = json.loads(run("--compare", "m4-max,h100", "--json").stdout)
    rows = compare["rows"]
    assert rows["gb_s_per_watt"]["a"] == near(5.5) and rows["gb_s_per_watt"]["b"] == near(4.8)
    assert 15 < rows["usable_f16_tera"]["ratio"] < 30 and rows["bandwidth_gb_s"]["ratio"] == near(6.1, 0.02)
    assert compare["limits"]["a"] == {"decode": "bandwidth", "prefill": "matmul", "memory": "fits"}
    for pair, ratio in (("m4-max,m3-ultra", 1.5), ("m4-pro,m4-max", 2)):
        text = json.loads(run("--compare", pair, "--json").stdout)
        assert text["rows"]["bandwidth_gb_s"]["ratio"] == near(ratio)
    assert "price of" in run("--compare", "m4-max,h100").stdout


def test_time_in_prefill():
    assert plan(*TEXT, "--prompt", 60000, "--read-ratio", 77)["prefill"]["time_share"] == near(0.79, 0.02)


def test_the_incident_and_its_policies():
    gaps = {gap["policy"]: gap for gap in plan(*TEXT, "--prompt", 60000, "--gap-ms", 100)["gaps"]}
    assert gaps["prefill-first"]["chat_tok_s"] == near(0.67, 0.05)
    assert gaps["cadence"]["worst_gap_s"] == 0.1 and gaps["decode-first"]["document_s"] is None


# ---- runs of others ----


def line(tok_s, **fields):
    return json.dumps({"format": "headway-run/1", "kind": "decode", "hardware": "m4-pro", "model": "llama-3.1-8b",
                       "type": "q4_0", "runtime": "mlx-lm", "batch": 1, "prompt_tokens": 0, "tok_s": tok_s,
                       "date": "2026-11-30", "source": "a test", **fields}) + "\n"


def test_seven_runs_turn_an_estimate_into_a_measurement(tmp_path):
    env = {"HEADWAY_RUNS": str(tmp_path / "runs.jsonl")}
    pair = ["--model", "llama-3.1-8b:q4_0", "--hardware", "m4-pro"]
    assert plan(*pair, env=env)["decode"]["basis"] == "est."
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text("".join(line(46 + i / 2) for i in range(7)) + line(99999))
    run("--import", theirs, env=env)
    decode = plan(*pair, env=env)["decode"]
    assert (decode["basis"], decode["n"], decode["date"]) == ("measured", 7, "2026-11-30")
    assert decode["estimate_tok_s"] == 47.5 and decode["low_tok_s"] <= 46 and decode["high_tok_s"] >= 49
    assert "measured, n = 7, 2026-11-30, mlx-lm" in run(*pair, env=env).stdout


def test_runs_on_battery_are_labelled(tmp_path):
    env = {"HEADWAY_RUNS": str(tmp_path / "runs.jsonl")}
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text(line(41, power="battery", throttled=True))
    run("--import", theirs, env=env)
    text = run("--model", "llama-3.1-8b:q4_0", "--hardware", "m4-pro", env=env).stdout
    assert "1 on battery" in text and "1 throttled" in text


# ---- newcomers ----


def test_without_arguments_it_explains_itself():
    done = run()
    assert done.stderr == "" and "SmolLM2 135M" in done.stdout and "this machine" in done.stdout
    examples = re.findall(r"^  headway plan (.*)$", done.stdout, re.M)
    assert len(examples) == 3
    for example in examples[:2]:
        run(*example.split())


def test_lines_fit_a_terminal():
    for arguments in ([], TEXT, [*TEXT, "--explain", "--draft", 3, "--batch", 8], ["--list", "hardware"],
                      ["--list", "models"], ["--compare", "m4-max,groq-lpu"],
                      ["--hardware", "b200", "--devices", 8, "--model", "deepseek-v3"]):
        for text in run(*arguments).stdout.splitlines():
            assert len(text) <= 100 and text == text.rstrip(), text


def test_formulas_hold_their_numbers():
    text = run(*TEXT, "--explain").stdout
    assert "34,660,610,688 parameters x 8.25 bits / 8 = 35.7 GB" in text
    assert "1 stream x 546 GB/s / 3.04 GB = 180" in text


def test_it_answers_at_once():
    """50 ms, in time of the CPU: it waits for nothing, and the machine of the tests may be busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(5):
        run(*TEXT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 5 <= 0.05


# ---- bad input ----


@pytest.mark.parametrize("arguments, words", [
    (["--hardware", "m4-maxx"], "nearest: m4-max"),
    (["--hardware", ""], "hardware"),
    (["--model", "qwen3.6-35b"], "qwen3.6-35b-a3b"),
    (["--model", "llama-3.1-8b:q9_9"], "q9_9"),
    (["--batch", "0"], "--batch: '0'"),
    (["--batch", "1.5"], "--batch: '1.5'"),
    (["--ctx", "-1"], "--ctx: '-1'"),
    (["--ctx", "999999999999"], "--ctx"),
    (["--accept", "1.01", "--draft", "3"], "--accept: '1.01'"),
    (["--draft", "65"], "--draft"),
    (["--bandwidth", "0"], "--bandwidth: '0'"),
    (["--bandwidth", "nan"], "--bandwidth: 'nan'"),
    (["--bandwidth", "inf"], "--bandwidth: 'inf'"),
    (["--bandwidth", "1e3"], "--bandwidth: '1e3'"),
    (["--bandwidth", "99999999"], "--bandwidth"),
    (["--memory", "-3"], "--memory: '-3'"),
    (["--flops", "0"], "--flops: '0'"),
    (["--watts", "x"], "--watts: 'x'"),
    (["--devices", "0"], "--devices: '0'"),
    (["--devices", "2", "--bandwidth", "100"], "--link GB/s is needed"),
    (["--hardware", "m4", "--prompt", "100", "--cached", "100"], "--cached"),
    (["--chunk", "0"], "--chunk: '0'"),
    (["--kv", "q3"], "q3"),
    (["--list", "cars"], "'cars'"),
    (["--compare", "m4-max"], "m4-max,h100"),
    (["--compare", "m4-max,h100,h200"], "m4-max,h100"),
    (["--compare", "m4-max,h1000"], "h1000"),
    (["--compare", "m4-max,h100", "--hardware", "m4"], "--compare does not go with --hardware"),
    (["--list", "models", "--import", "runs.jsonl"], "--list does not go with --import"),
    (["h100"], "h100"),
])
def test_a_wrong_flag_gets_one_clear_line(arguments, words):
    done = run(*arguments, code=2)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("headway plan: ") and words in done.stderr


@pytest.mark.parametrize("config, words", [
    ({}, "model_type"),
    ({"model_type": "llama"}, "hidden_size"),
    ({"model_type": "llama", "hidden_size": -5, "num_hidden_layers": 2}, "hidden_size"),
    ({"model_type": "teapot", "hidden_size": 64}, "teapot"),
    ("not json", "config.json"),
])
def test_a_wrong_config_is_named(tmp_path, config, words):
    path = tmp_path / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    done = run("--model", path, "--hardware", "h200", code=1)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1 and words in done.stderr


@pytest.mark.parametrize("name", ["absent.gguf", "absent/config.json"])
def test_an_absent_file_is_no_wrong_call(tmp_path, name):
    done = run("--model", tmp_path / name, "--hardware", "h200", code=1)
    assert name in done.stderr and len(done.stderr.splitlines()) == 1
