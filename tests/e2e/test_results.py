"""Measured runs: what `headway bench` keeps of a tiny model, with power and clocks out of a made-up /sys."""
import json
import os
import pathlib
import subprocess
import threading
import time

import pytest

from conftest import HEADWAY, ROOT, Server

CONFIG = ROOT / "tests" / "data" / "configs" / "tiny_qwen3.json"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "tiny.gguf"
    subprocess.run([HEADWAY, "synth", "--config", CONFIG, "--type", "q8_0", "--out", path], check=True,
                   capture_output=True)
    return path


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(file.name + "~")
    fresh.write_text(text + "\n")
    fresh.replace(file)


def bench(tmp_path, model, *flags, env=None, code=0, meanwhile=None):
    store = tmp_path / "data" / "runs.jsonl"
    process = subprocess.Popen(
        [HEADWAY, "bench", "--model", model, "--tokens", "16", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "HEADWAY_RUNS": str(store), "HEADWAY_SYSFS": str(tmp_path / "sys"),
             "HEADWAY_HARDWARE": "test-box", **(env or {})})
    if meanwhile:
        meanwhile(process)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    runs = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    return runs, out, err


def test_figures_are_kept_on_mains(tmp_path, model):
    put(tmp_path / "sys", "class/power_supply/AC/type", "Mains")
    put(tmp_path / "sys", "class/power_supply/AC/online", "1")
    put(tmp_path / "sys", "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3900000")
    put(tmp_path / "sys", "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4000000")
    runs, out, err = bench(tmp_path, model, "--prefill", "64", "--depth", "0,100", "--json")
    speeds = json.loads(out)  # nothing but the object on stdout
    assert "kept 3 figures" in err and "test-box" in err
    assert [(r["kind"], r["prompt_tokens"], r["output_tokens"]) for r in runs] == [
        ("prefill", 64, 0), ("decode", 0, 16), ("decode", 100, 16)]
    for run, speed in zip(runs, speeds.values()):
        assert run["format"] == "headway-run/1" and run["hardware"] == "test-box" and run["type"] == "q8_0"
        assert run["runtime"] == "headway" and run["sampler"] == "greedy" and run["batch"] == 1
        assert run["repeats"] == 3 and run["tok_s_low"] <= run["tok_s"] <= run["tok_s_high"]
        assert abs(run["tok_s"] - speed) <= 0.001 * speed
        assert run["power"] == "mains" and run["throttled"] is False
        assert abs(time.mktime(time.strptime(run["date"], "%Y-%m-%dT%H:%M:%SZ")) - time.mktime(time.gmtime())) < 100


def test_a_run_on_battery_is_labelled(tmp_path, model):
    put(tmp_path / "sys", "class/power_supply/BAT0/type", "Battery")
    put(tmp_path / "sys", "class/power_supply/BAT0/status", "Discharging")
    runs, _, err = bench(tmp_path, model, "--prefill", "64", "--depth", "0")
    assert [r["power"] for r in runs] == ["battery", "battery"] and [r["throttled"] for r in runs] == [None, None]
    assert "2 of them on battery" in err


def test_clocks_that_fall_meanwhile_are_labelled(tmp_path, model):
    clock = "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq"
    count = "devices/system/cpu/cpu1/thermal_throttle/core_throttle_count"
    put(tmp_path / "sys", clock, "4000000")
    put(tmp_path / "sys", count, "7")

    def fall(process):  # with the first figure that is there
        process.stdout.readline()
        put(tmp_path / "sys", clock, "2500000")
        put(tmp_path / "sys", count, "9")

    runs, _, err = bench(tmp_path, model, "--prefill", "64,4000", "--depth", "4000", "--repeat", "5", meanwhile=fall)
    assert [r["throttled"] for r in runs][0] is False and runs[-1]["throttled"] is True
    assert "while the clocks fell" in err


def test_what_is_not_kept(tmp_path, model):
    for flags, env in ((["--keep", "off"], {}), (["--threads", "1"], {}), (["--kv", "q8"], {}),
                       ([], {"HEADWAY_CPU": "generic"}), (["--breakdown"], {})):
        runs, _, err = bench(tmp_path, model, "--prefill", "64", "--depth", "64", *flags, env=env)
        assert runs == [] and "kept" not in err, (flags, err)
    _, _, err = bench(tmp_path, model, "--keep", "perhaps", code=2)
    assert "--keep: 'perhaps' is neither on nor off" in err


def test_a_store_that_cannot_be_written_is_no_failure(tmp_path, model):
    _, out, err = bench(tmp_path, model, "--prefill", "64", "--depth", "0", env={"HEADWAY_RUNS": "/dev/null/x"})
    assert "prefill" in out and "not kept: /dev/null" in err


def headway(tmp_path, *arguments, code=0, env=None):
    done = subprocess.run([HEADWAY, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HEADWAY_RUNS": str(tmp_path / "runs.jsonl"), **(env or {})})
    assert done.returncode == code, done.stderr
    return done


def decode_of(tmp_path, model, hardware):
    return json.loads(headway(tmp_path, "plan", "--model", model, "--hardware", hardware, "--json").stdout)["decode"]


def lines(rates, **fields):
    run = {"format": "headway-run/1", "kind": "decode", "hardware": "rtx-4090", "model": "llama-3.1-8b", "type": "q4_0",
           "runtime": "llama.cpp", "batch": 1, "prompt_tokens": 0, "date": "2026-11-20", **fields}
    return "".join(json.dumps({**run, "tok_s": rate}) + "\n" for rate in rates)


def test_seven_imported_runs_turn_est_into_measured(tmp_path):
    before = decode_of(tmp_path, "llama-3.1-8b:q4_0", "rtx-4090")
    assert before["basis"] == "est." and before["n"] == 0
    (tmp_path / "theirs.jsonl").write_text(lines([120, 126, 124, 130, 122, 121, 123, 20]) + "rubbish\n")
    said = headway(tmp_path, "plan", "--import", tmp_path / "theirs.jsonl").stdout
    assert "7 runs taken, 1 refused as outliers, 1 refused as wrong" in said
    after = decode_of(tmp_path, "llama-3.1-8b:q4_0", "rtx-4090")
    assert after["basis"] == "measured" and after["n"] == 7 and after["estimate_tok_s"] == 123
    assert after["date"] == "2026-11-20" and after["low_tok_s"] <= 120
    again = json.loads(headway(tmp_path, "plan", "--import", tmp_path / "theirs.jsonl", "--json").stdout)
    assert again["taken"] == 0 and again["doubles"] == 7 and again["outliers"] == 1 and again["refused"] == 1
    assert decode_of(tmp_path, "llama-3.1-8b:q4_0", "rtx-4090")["n"] == 7
    assert decode_of(tmp_path, "llama-3.1-8b:q4_0", "rtx-3090")["basis"] == "est."


def test_nothing_to_take_is_an_error(tmp_path):
    assert "no/such" in headway(tmp_path, "plan", "--import", "/no/such", code=1).stderr
    (tmp_path / "wrong.jsonl").write_text(lines([1e6]))
    assert "above" in headway(tmp_path, "plan", "--import", tmp_path / "wrong.jsonl", code=1).stdout


def test_plan_says_that_the_runs_were_on_battery(tmp_path):
    (tmp_path / "slow.jsonl").write_text(lines([60, 61], power="battery") + lines([50], power="mains", throttled=True))
    headway(tmp_path, "plan", "--import", tmp_path / "slow.jsonl")
    decode = decode_of(tmp_path, "llama-3.1-8b:q4_0", "rtx-4090")
    assert decode["n"] == 3 and decode["on_battery"] == 2 and decode["throttled"] == 1
    said = headway(tmp_path, "plan", "--model", "llama-3.1-8b:q4_0", "--hardware", "rtx-4090").stdout
    assert "on battery" in said and "clocks fell" in said


def test_a_servers_rate_is_kept_when_it_is_named(tmp_path):
    server = Server("--runner", "sim:decode_base_us=5000")
    try:
        load = ["bench", "agents", "--url", server.url, "--agents", "1", "--requests", "4", "--scale", "0.1"]
        keep = [*load, "--keep", "llama-3.1-8b:q4_0@sim"]
        env = {"HEADWAY_HARDWARE": "test-box", "HEADWAY_SYSFS": str(tmp_path)}
        headway(tmp_path, *load, env=env)
        assert not (tmp_path / "runs.jsonl").exists()
        assert "kept 1 figure of llama-3.1-8b:q4_0 on test-box" in headway(tmp_path, *keep, env=env).stderr
        run = json.loads((tmp_path / "runs.jsonl").read_text())
        assert run["runtime"] == "sim" and run["batch"] == 1 and run["repeats"] == 4 and 100 < run["tok_s"] <= 201
        assert run["prompt_tokens"] > 50 and run["output_tokens"] > 1 and "sampler" not in run
        for flags, says in ((["--keep", "llama-3.1-8b:q4_0"], "is not like"),
                            (["--keep", "llama-3.1-8b@"], "is not like"),
                            (["--keep", "no-such:q4_0@x"], "not in the catalogue"),
                            ([*keep[-2:], "--agents", "2"], "one stream alone"),
                            ([*keep[-2:], "--url", "http://far.example:1"], "HEADWAY_HARDWARE")):
            done = headway(tmp_path, *load, *flags, code=2, env={"HEADWAY_HARDWARE": ""})
            assert says in done.stderr, done.stderr
    finally:
        server.process.terminate()
        server.process.wait(10)


def test_two_at_once_lose_nothing(tmp_path, model):
    arguments = (tmp_path, model, "--prefill", "32", "--depth", "0")
    threads = [threading.Thread(target=bench, args=arguments) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = pathlib.Path(tmp_path / "data" / "runs.jsonl").read_text().splitlines()
    assert len(lines) == 8 and all(json.loads(line)["format"] == "headway-run/1" for line in lines)
