"""The correctness bars of the prefix cache in small: `tools/bench_cache.py --quick` on the simulated runner, a tiny
hybrid and the default model."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import HEADWAY, ROOT

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MODEL = CACHE / "headway" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
BARS = [
    ("agents", "sim,sim-hybrid,hybrid"),
    ("herd", "sim,sim-hybrid,hybrid"),
    ("documents", "sim,sim-hybrid,hybrid"),
    ("abort", "sim,sim-hybrid"),
    ("bits", "hybrid,dense"),
    ("crash", "hybrid"),
    ("leaks", "sim,sim-hybrid"),
]


@pytest.mark.parametrize("scenario, kinds", BARS)
def test_bar(tmp_path, scenario, kinds):
    out = tmp_path / "cache.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "bench_cache.py", HEADWAY, MODEL, "--quick", "--only", scenario, "--kinds",
         kinds, "--json", out, "--seed", "7"],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entry = json.loads(out.read_text())[-1]
    assert entry["checks"], done.stdout
    assert not [c for c in entry["checks"] if not c["met"]], done.stdout
