"""headway --help, and of each command: they fit one screen of 80 by 24 (serve, plan: by 40); wrong flags are named."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADWAY = os.environ.get("HEADWAY", str(ROOT / "build" / "headway"))
COMMANDS = ["serve", "chat", "inspect", "tokenize", "render", "synth", "bench", "tune", "plan", "simulate", "hash-key"]


def run(*arguments):
    return subprocess.run([HEADWAY, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_one_screen(command):
    done = run(*([command] if command else []), "--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert len(lines) <= (42 if command in ("serve", "plan") else 24) and max(map(len, lines)) <= 80


def test_help_lists_every_command():
    assert re.findall(r"^  ([a-z-]+)  ", run("--help").stdout, re.M) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_flag_is_named(command):
    done = run(command, "--no-such-flag")
    assert done.returncode == 2 and done.stdout == ""
    assert "--no-such-flag" in done.stderr and f"headway {command} --help" in done.stderr


def test_an_unknown_command_is_named():
    done = run("sreve")
    assert done.returncode == 2 and "'sreve' is not a command" in done.stderr


def test_the_version_is_printed():
    assert re.fullmatch(r"headway \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.parametrize("kind", ["empty", "noise", "folder", "absent"])
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["inspect"]])
def test_a_bad_model_is_named_and_is_no_wrong_call(command, kind, tmp_path):
    path = tmp_path / "model.gguf"
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_bytes(b"" if kind == "empty" else os.urandom(1000))
    done = run(*command, *(["--model"] if command[0] == "serve" else []), str(path))
    assert done.returncode == 1 and done.stdout == ""
    assert str(path) in done.stderr and len(done.stderr.splitlines()) <= 2
