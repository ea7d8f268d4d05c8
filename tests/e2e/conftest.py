"""A running `headway serve` for the tests, and what they need to look at it."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADWAY = os.environ.get("HEADWAY", str(ROOT / "build" / "headway"))
PATIENCE_S = 30
os.environ["HEADWAY_RUNS"] = os.devnull  # what tests measure is not kept for the user's plans


def pytest_configure(config):
    config.addinivalue_line("markers", "models: needs the two larger models")
    config.addinivalue_line("markers", "clients: needs a client program in a virtual environment of its own")
    config.addinivalue_line("markers", "alone: asserts on time; runs with nothing beside it")


def free_ports(count):
    """Below those that the system deals out, so that nobody gets them in between."""
    found, port = [], 10000 + os.getpid() * 31 % 15000
    while len(found) < count and port < 32000:
        port += 1
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                found.append(port)
            except OSError:
                continue
    assert len(found) == count
    return found


class Server:
    """One server process on a free port. `log` holds what it wrote."""

    def __init__(self, *flags, env=None):
        self.process = subprocess.Popen(
            [HEADWAY, "serve", "--port", "0", *map(str, flags)],
            stdin=subprocess.DEVNULL,
            text=True,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise AssertionError("the server did not start: " + "".join(self.log))
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._drain_log, daemon=True).start()
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)

    def _drain_log(self):
        self.log.extend(self.process.stderr)

    def says(self, *parts):
        """Waits for a line of the log with all of these in it: what is written after an answer may be read after it."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(all(part in line for part in parts) for line in self.log):
            assert time.monotonic() < deadline, f"no line with {parts}: " + "".join(self.log)
            time.sleep(0.02)
        return True

    def post(self, path, body, **kwargs):
        return self.http.post(path, json=body, **kwargs)

    def chat(self, text="hi", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def metric(self, name):
        """The sum over a name's series."""
        total = None
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith(name + "{") or line.startswith(name + " "):
                total = (total or 0) + float(line.rsplit(" ", 1)[1])
        assert total is not None, f"no metric {name}"
        return total

    def held_pages(self):
        """KV pages that requests hold; not those that only the prefix cache does."""
        return self.metric("headway:pages") - self.metric("headway:pages_free")

    def rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    def connect(self, receive_buffer=None):
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(PATIENCE_S)
        s.connect(("127.0.0.1", self.port))
        return s

    def stop(self, number=signal.SIGINT):
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def serve(tmp_path):
    """serve(*flags) starts a server; serve(script=[…]) one that says these replies. Each must end well."""
    started = []

    def start(*flags, script=None, env=None):
        if script is not None:
            path = tmp_path / f"script{len(started)}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in script))
            flags = ("--runner", f"script:{path}", *flags)
        server = Server(*flags, env=env)
        started.append(server)
        return server

    yield start
    for server in started:
        assert server.stop() == 0, "".join(server.log)


@pytest.fixture(scope="module")
def sim():
    """A server on the simulated runner, shared by the tests of a file."""
    server = Server("--runner", "sim:reply_tokens=40,decode_base_us=1000")
    yield server
    assert server.stop() == 0, "".join(server.log)


def events(lines):
    """The data of an SSE stream; comments as None."""
    for line in lines:
        if line.startswith("data: "):
            yield line[6:] if line == "data: [DONE]" else json.loads(line[6:])
        elif line.startswith(":"):
            yield None
