"""The short form of the day of `make bench-day`: nothing goes wrong, nothing is left over, batch work runs while no
agent waits. How large the gaps are and how much of half a minute is filled is a matter of the machine, and
`make bench-day` says it."""

import json
import subprocess
import sys

import pytest

from conftest import HEADWAY, ROOT

MACHINE = ("gaps of", "share of")
FILL = 0.5  # 0.99 on a quiet machine, 0.88 on a busy one


@pytest.mark.alone
def test_a_short_day(tmp_path):
    model = subprocess.run([ROOT / "tools" / "fetch_model.sh"], capture_output=True, text=True, check=True)
    program = [sys.executable, str(ROOT / "tools" / "bench_day.py"), HEADWAY, model.stdout.strip(), "--quick", "--out",
               str(tmp_path / "day.json")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (entry,) = json.loads((tmp_path / "day.json").read_text())
    open_bars = [c for c in entry["checks"] if not c["met"] and not c["what"].startswith(MACHINE)]
    assert not open_bars, done.stdout
    details = entry["details"]
    (fill,) = [c["measured"] for c in entry["checks"] if c["what"].startswith("share of the idle")]
    assert fill >= FILL, done.stdout
    assert details["sessions"] >= 3 and details["calls"] >= 6 and details["lines"] >= 6, done.stdout
