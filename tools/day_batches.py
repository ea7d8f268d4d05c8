"""The batch jobs of bench_day.py: some are always there, and each that ends is looked at and followed by another.
Standard library only."""

import json, threading, time

import http.client

from cadence_client import Failed, words

AT_ONCE = 3
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


class Batches(threading.Thread):
    def __init__(self, server, rng, size):
        super().__init__(daemon=True)
        self.server, self.rng, self.size, self.errors = server, rng, size, []  # size: lines of a job
        self.stopped, self.running = threading.Event(), {}  # by id: which it is
        self.ended = self.lines = self.made = 0

    def request(self, method, path, body=None, kind="application/json"):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if body else {})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(f"{method} {path}: {answer.status} {data[:200]!r}")
        return data

    def submit(self):
        url = MESSAGES if self.made % 3 == 2 else CHAT
        lines = []
        for i in range(self.size):
            body = {"model": "m", "max_tokens": self.rng.randint(20, 120), "temperature": 0.7,
                    "messages": [{"role": "user", "content": words(self.rng, self.rng.randint(20, 300))}]}
            lines.append(json.dumps({"custom_id": f"{self.made}-{i}", "method": "POST", "url": url, "body": body}))
        self.made += 1
        form = "\r\n".join(["--day", 'Content-Disposition: form-data; name="purpose"', "", "batch", "--day",
                            'Content-Disposition: form-data; name="file"; filename="day.jsonl"', "",
                            "\n".join(lines), "--day--", ""])
        file = json.loads(self.request("POST", "/v1/files", form, "multipart/form-data; boundary=day"))
        ask = {"input_file_id": file["id"], "endpoint": url, "completion_window": "24h"}
        batch = json.loads(self.request("POST", "/v1/batches", json.dumps(ask)))
        self.running[batch["id"]] = self.made - 1

    def look(self, id):
        batch = json.loads(self.request("GET", f"/v1/batches/{id}"))
        if batch["status"] not in ("completed", "failed", "expired", "cancelled"):
            return
        number = self.running.pop(id)
        counts = {"total": self.size, "completed": self.size, "failed": 0}
        if batch["status"] != "completed" or batch["request_counts"] != counts:
            raise ValueError(f"a batch ended: {batch}")
        answers = [json.loads(line) for line in
                   self.request("GET", f"/v1/files/{batch['output_file_id']}/content").splitlines()]
        if sorted(a["custom_id"] for a in answers) != sorted(f"{number}-{i}" for i in range(self.size)):
            raise ValueError(f"the answers of a batch are not its lines': {len(answers)}")
        for a in answers:
            body = a["response"]["body"]
            text = body["choices"][0]["message"]["content"] if "choices" in body else body["content"]
            if a["response"]["status_code"] != 200 or text is None:
                raise ValueError(f"an answer of a batch: {a}")
        for file in (batch["input_file_id"], batch["output_file_id"]):
            self.request("DELETE", f"/v1/files/{file}")
        self.ended += 1
        self.lines += self.size

    def run(self):
        while not self.stopped.is_set():
            try:
                while len(self.running) < AT_ONCE:
                    self.submit()
                for id in list(self.running):
                    self.look(id)
            except (OSError, ValueError, KeyError, http.client.HTTPException) as e:
                self.errors.append(f"batch: {type(e).__name__}: {e}"[:300])
                self.stopped.wait(1)
            self.stopped.wait(0.3)

    def wait_running(self, seconds):
        end = time.monotonic() + seconds
        while self.server.metric("vllm:num_requests_running") < 2:
            if time.monotonic() > end:
                raise Failed(f"no batch runs: {self.errors[:2]}")
            time.sleep(0.1)
        time.sleep(1)

    def stop(self):
        self.stopped.set()
        self.join(30)
        for id in self.running:
            try:
                self.request("POST", f"/v1/batches/{id}/cancel")
            except ValueError as e:
                if " 409 " not in str(e):  # it has just ended
                    self.errors.append(f"batch: {e}"[:300])
