"""The agents of bench_day.py: each takes tasks, by the hour of the day; a task is a conversation of calls and results
and an answer at its end. Some read an answer half and vanish, then ask again. Standard library only."""

import http.client, json, socket, struct, threading, time

from cadence_client import now_ns, words

TOOLS = [{"type": "function", "function": {
    "name": name, "description": about, "parameters": {
        "type": "object", "properties": {
            "path": {"enum": ["src/main.c", "src/server/http.c", "README.md", "tests/unit/all.c"]},
            "line": {"type": "integer", "minimum": 1, "maximum": 999}, **more},
        "required": ["path", "line", *more]}}}
    for name, about, more in (("read_file", "Reads a file from a line on.", {}),
                              ("edit_line", "Puts a word in place of a line.",
                               {"word": {"enum": ["static", "const", "return", "assert"]}}))]
REQUIRED = {t["function"]["name"]: set(t["function"]["parameters"]["required"]) for t in TOOLS}
SYSTEM = "You are a coding agent. You read and edit files with your tools, one step at a time. "


class Vanished(Exception):
    """The client closed its connection in the middle."""


class Desk:
    """What all agents share: the clock of the day, and what came of their requests."""

    def __init__(self, server):
        self.server, self.lock = server, threading.Lock()
        self.spans, self.gaps, self.errors = [], [], []  # spans: in which a request was under way, ns
        self.sessions = self.requests = self.calls = self.aborts = self.thoughts = 0

    def begin(self, at, seconds, hours):
        self.at, self.seconds, self.hours = at, seconds, hours

    def hour(self):
        """(how busy this hour is, seconds until it ends); (None, 0): the day is over."""
        gone = (now_ns() - self.at) / 1e9
        length = self.seconds / len(self.hours)
        index = int(gone / length)
        return (self.hours[index], (index + 1) * length - gone) if index < len(self.hours) else (None, 0)

    def over(self):
        return now_ns() >= self.at + self.seconds * 1e9

    def add(self, name, count=1):
        with self.lock:
            setattr(self, name, getattr(self, name) + count)

    def error(self, text):
        with self.lock:
            self.errors.append(text[:300])

    def ask(self, body, vanish_after=None):
        """A streamed chat completion, put together. Vanished: after so many deltas; 0: before there is an answer."""
        begin, times = now_ns(), []
        try:
            return self.read_stream(body, vanish_after, times)
        finally:
            with self.lock:
                self.requests += 1
                self.spans.append((begin, now_ns()))
                self.gaps += [(b - a) / 1e6 for a, b in zip(times, times[1:])]

    def read_stream(self, body, vanish_after, times):
        out = {"content": "", "thought": "", "calls": [], "finish": None, "usage": None, "ended": False}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            if vanish_after == 0:
                time.sleep(0.02)
                vanish(connection)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ValueError(f"{answer.status} {answer.read()[:200]!r}")
            deltas = 0
            for line in answer:
                if not line.startswith(b"data: "):
                    continue
                if line.startswith(b"data: [DONE]"):
                    out["ended"] = True
                    break
                deltas += take_chunk(out, json.loads(line[6:]), times)
                if vanish_after is not None and deltas >= vanish_after:
                    vanish(connection)
        finally:
            connection.close()
        if not out["ended"]:
            raise ValueError("a stream broke off")
        return out


def vanish(connection):
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
    raise Vanished


def take_chunk(out, chunk, times):
    """-> how many deltas it had"""
    out["usage"] = chunk.get("usage") or out["usage"]
    if "error" in chunk:
        raise ValueError(f"in a stream: {chunk['error']}")
    count = 0
    for choice in chunk.get("choices", ()):
        delta = choice["delta"]
        if delta.get("content") or delta.get("reasoning_content"):
            times.append(now_ns())
            count += 1
        out["content"] += delta.get("content") or ""
        out["thought"] += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            if call["index"] == len(out["calls"]):
                out["calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            out["calls"][call["index"]]["arguments"] += call["function"].get("arguments") or ""
            count += 1
        out["finish"] = choice.get("finish_reason") or out["finish"]
    return count


class Agent(threading.Thread):
    def __init__(self, desk, number, rng):
        super().__init__(daemon=True)
        self.desk, self.rng, self.number = desk, rng, number
        self.system = SYSTEM + words(rng, 150)

    def run(self):
        while True:
            busy, left = self.desk.hour()
            if busy is None:
                return
            pause = self.rng.expovariate(busy / (self.desk.seconds / 60)) if busy else left
            time.sleep(min(left, pause) + 0.001)
            if busy and pause <= left and not self.desk.over():
                self.session()

    def session(self):
        try:
            self.work()
            self.desk.add("sessions")
        except (OSError, ValueError, KeyError, http.client.HTTPException) as e:
            self.desk.error(f"agent {self.number}: {type(e).__name__}: {e}")

    def ask(self, messages, **fields):
        body = {"model": "m", "messages": messages, "stream": True, "stream_options": {"include_usage": True},
                "temperature": 0.8, "seed": self.rng.randrange(1 << 30), **fields}
        if self.rng.random() < 0.15:
            try:
                self.desk.ask(body, vanish_after=self.rng.randint(0, 1 if "tools" in fields else 20))
            except Vanished:
                self.desk.add("aborts")
                time.sleep(self.rng.uniform(0, 0.2))
        return self.desk.ask(body)

    def work(self):
        messages = [{"role": "system", "content": self.system},
                    {"role": "user", "content": "Fix this: " + words(self.rng, self.rng.randint(10, 120))}]
        for _ in range(self.rng.randint(1, 4)):
            if self.desk.over():
                return
            self.call(messages)
            time.sleep(self.rng.uniform(0.05, 0.6))  # the tool runs
        if self.rng.random() < 0.4:
            self.think(messages)
        answer = self.ask(messages, max_tokens=self.rng.randint(30, 150))
        if answer["finish"] not in ("stop", "length") or answer["calls"]:
            raise ValueError(f"an answer ended by {answer['finish']}, {answer['calls']}")

    def call(self, messages):
        """One call of a tool: what the model asks for must be what its schema says."""
        answer = self.ask(messages, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=200)
        if answer["finish"] != "tool_calls" or len(answer["calls"]) != 1:
            raise ValueError(f"no call: {answer}")
        call = answer["calls"][0]
        arguments = json.loads(call["arguments"])
        if set(arguments) != REQUIRED[call["name"]] or not 1 <= arguments["line"] <= 999:
            raise ValueError(f"a call of {call['name']} with {arguments}")
        self.desk.add("calls")
        function = {"name": call["name"], "arguments": json.dumps(arguments, indent=1)}
        messages.append({"role": "assistant", "content": answer["content"],
                         "tool_calls": [{"id": call["id"], "type": "function", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": call["id"],
                         "content": words(self.rng, self.rng.randint(30, 400))})

    def think(self, messages):
        """A thought that the client opens for a model that does not by itself; its budget ends it."""
        answer = self.ask([*messages, {"role": "assistant", "content": "<think>\n"}], continue_final_message=True,
                          thinking_budget=24, max_tokens=60, ignore_eos=True)
        if not answer["thought"]:
            raise ValueError(f"no thought: {answer}")
        self.desk.add("thoughts")
