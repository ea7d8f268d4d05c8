"""headway chat: in a terminal (a pty) and in a pipe, against `headway serve --runner script:FILE`."""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADWAY = os.environ.get("HEADWAY", str(ROOT / "build" / "headway"))
PATIENCE_S = 20


class Terminal:
    """A program on a pty; what it wrote so far is in `seen`."""

    def __init__(self, *arguments, **variables):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(HEADWAY, ["headway", *arguments], {**os.environ, "TERM": "xterm", **variables})
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        """Waits until `text` comes; drops everything up to its end."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
        assert text in self.seen, f"ended without {text!r}: {self.seen!r}"
        before, self.seen = self.seen.split(text, 1)
        return before

    def end(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program did not end")


@pytest.fixture
def script_server(tmp_path):
    """serve(lines) starts a server that says these replies; gives its URL."""
    started = []

    def serve(lines):
        script = tmp_path / "script.jsonl"
        script.write_text("".join(json.dumps(line) + "\n" for line in lines))
        process = subprocess.Popen([HEADWAY, "serve", "--runner", f"script:{script}", "--port", "0"], text=True,
                                   stderr=subprocess.PIPE)
        started.append(process)
        for line in process.stderr:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                return found.group(1)
        raise AssertionError("the server did not start")

    yield serve
    for process in started:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def test_answers_in_a_terminal_and_leaves_on_end_of_input(script_server):
    url = script_server([{"reply": "Hello there.", "match": "hi"}, {"reply": "Two lines.", "match": "one\ntwo"}])
    chat = Terminal("chat", "--url", url)
    chat.expect("> ")
    chat.type("hi\n")
    chat.expect("Hello there.")
    chat.expect("> ")
    chat.type("one\\\n")
    chat.expect("… ")
    chat.type("two\n")
    chat.expect("Two lines.")
    chat.expect("> ")
    chat.type("\x04")
    assert chat.end() == 0


def test_interrupt_stops_the_answer_and_not_the_program(script_server):
    url = script_server([{"settings": {"decode_base_us": 20000}}, {"reply": "again " * 400, "match": "talk"},
                         {"reply": "Still here.", "match": "there?"}])
    chat = Terminal("chat", "--url", url)
    chat.expect("> ")
    chat.type("talk\n")
    chat.expect("again again again")
    chat.type("\x03")
    chat.expect("(stopped)")
    chat.expect("> ")
    chat.type("there?\n")
    chat.expect("Still here.")
    chat.expect("> ")
    chat.type("\x03")
    chat.expect("(Ctrl-D leaves)")
    chat.type("\x04")
    assert chat.end() == 0


def test_saves_clears_and_sets_the_system_message(script_server, tmp_path):
    url = script_server([{"reply": "Aye.", "times": 0}])
    chat = Terminal("chat", "--url", url, "--system", "Be a pirate.")
    chat.expect("> ")
    chat.type('"""\nfirst\nsecond\n"""\n')
    chat.expect("Aye.")
    chat.type(f"/save {tmp_path}/talk.json\n")
    chat.expect("3 messages saved")
    assert json.loads((tmp_path / "talk.json").read_text()) == [
        {"role": "system", "content": "Be a pirate."}, {"role": "user", "content": "first\nsecond"},
        {"role": "assistant", "content": "Aye."}]
    chat.type(f"/clear\n/system Be brief.\n/save {tmp_path}/talk.json\n")
    chat.expect("1 messages saved")
    assert json.loads((tmp_path / "talk.json").read_text()) == [{"role": "system", "content": "Be brief."}]
    chat.type("/nothing\n")
    chat.expect("'/nothing' is not a command")
    chat.type("\x04")
    assert chat.end() == 0


def test_takes_one_message_from_a_pipe(script_server):
    url = script_server([{"reply": "Both lines read.", "match": "a\nb"}])
    run = subprocess.run([HEADWAY, "chat", "--url", url], input="a\nb\n", capture_output=True, text=True,
                         timeout=PATIENCE_S)
    assert (run.returncode, run.stdout, run.stderr) == (0, "Both lines read.\n", "")


def test_says_what_is_wrong():
    def fails(*arguments, text="x"):
        run = subprocess.run([HEADWAY, "chat", *arguments], input=text, capture_output=True, text=True,
                             timeout=PATIENCE_S)
        assert run.returncode in (1, 2) and run.stdout == ""
        return run.stderr

    assert "127.0.0.1:9" in fails("--url", "http://127.0.0.1:9")
    assert "give one of them" in fails("--url", "http://x", "--model", "y")
    assert "/nowhere/model.gguf" in fails("--model", "/nowhere/model.gguf")
    assert "not a number" in fails("--temperature", "hot")


def test_starts_and_stops_a_server_of_its_own():
    fetch = subprocess.run([ROOT / "tools" / "fetch_model.sh"], capture_output=True, text=True, check=True)
    model = fetch.stdout.strip()
    run = subprocess.run([HEADWAY, "chat", "--model", model, "--max-tokens", "8", "--temperature", "0"],
                         input="What is the capital of France?", capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stdout.strip(), run
    servers = subprocess.run(["pgrep", "-f", f"headway serve --model {model} --host 127.0.0.1"], capture_output=True)
    assert servers.stdout == b""
