"""Files and batches, by the openai package and by hand: what is kept, what runs, and what a kill leaves."""

import io
import json
import os
import signal
import stat
import time

import openai
import pytest

from conftest import Server

SIM = ("--runner", "sim:reply_tokens=20,decode_base_us=1000")


def lines_of(texts, url="/v1/chat/completions", **fields):
    out = []
    for i, text in enumerate(texts):
        body = {"model": "sim", "temperature": 0, **fields}
        body |= {"prompt": text} if url == "/v1/completions" else {"messages": [{"role": "user", "content": text}]}
        out.append({"custom_id": f"line-{i}", "method": "POST", "url": url, "body": body})
    return out


def jsonl(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def client_of(server, key="none"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def start(client, lines, window="24h", endpoint="/v1/chat/completions", **fields):
    data = lines if isinstance(lines, bytes) else jsonl(lines)
    file = client.files.create(file=("in.jsonl", io.BytesIO(data)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window=window, **fields)


def wait(client, batch, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        time.sleep(0.05)
    raise AssertionError(f"the batch is still {batch}")


def answers(client, file):
    return [json.loads(line) for line in client.files.content(file).text.splitlines()]


@pytest.fixture
def served(serve, tmp_path):
    return serve(*SIM, "--batch-dir", tmp_path / "batch")


@pytest.fixture
def client(served):
    with client_of(served) as c:
        yield c


def test_without_the_flag_a_404_names_it(sim):
    for answer in (sim.http.get("/v1/files"), sim.post("/v1/batches", {}), sim.http.get("/v1/batches/batch_1")):
        assert answer.status_code == 404 and "--batch-dir" in answer.json()["error"]["message"]


def test_files_come_and_go(client, served, tmp_path):
    data = jsonl(lines_of(["a", "b"]))
    file = client.files.create(file=("in \u00e9.jsonl", data), purpose="batch")
    assert (file.bytes, file.filename, file.purpose, file.object) == (len(data), "in \u00e9.jsonl", "batch", "file")
    assert file.expires_at - file.created_at == 30 * 86400
    assert client.files.retrieve(file.id).model_dump() == file.model_dump()
    assert client.files.content(file.id).content == data
    others = [client.files.create(file=(f"{i}.jsonl", b"{}"), purpose="batch",
                                  expires_after={"anchor": "created_at", "seconds": 3600}) for i in range(3)]
    assert others[0].expires_at - others[0].created_at == 3600
    assert [f.id for f in client.files.list(limit=2)] == [f.id for f in [*others[::-1], file]]
    assert [f.id for f in client.files.list(order="asc").data] == [file.id, *(f.id for f in others)]
    for path, mode in (("", 0o700), ("files", 0o700), (f"files/{file.id}", 0o600), (f"files/{file.id}.json", 0o600)):
        assert stat.S_IMODE(os.stat(tmp_path / "batch" / path).st_mode) == mode
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)
    assert not list((tmp_path / "batch" / "files").glob(file.id + "*"))


def test_bad_uploads_are_refused(client, served):
    for purpose in ("fine-tune", "vision"):
        with pytest.raises(openai.BadRequestError) as e:
            client.files.create(file=("x", b"x"), purpose=purpose)
        assert e.value.param == "purpose"
    form = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n'
    head = {"Content-Type": "multipart/form-data; boundary=b"}
    assert served.http.post("/v1/files", content=form, headers=head).json()["error"]["param"] == "file"
    assert served.http.post("/v1/files", content=form[:-4], headers=head).status_code == 400
    assert served.post("/v1/files", {}).status_code == 415
    for path in ("/v1/files/..%2f..%2fetc", "/v1/files/file-0/../x", "/v1/files/x/content", "/v1/files/" + "a" * 300):
        assert served.http.get(path).status_code == 404


@pytest.mark.parametrize("url", ["/v1/chat/completions", "/v1/completions"])
def test_a_batch_answers_as_the_endpoint_does(client, served, url):
    lines = lines_of([f"text {i}" for i in range(50)], url, max_tokens=9)
    batch = start(client, lines, endpoint=url, metadata={"who": "me"})
    assert batch.status == "validating" and batch.metadata == {"who": "me"} and batch.completion_window == "24h"
    batch = wait(client, batch)
    assert batch.status == "completed" and batch.error_file_id is None and batch.errors is None
    assert batch.request_counts.model_dump() == {"total": 50, "completed": 50, "failed": 0}
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at < batch.expires_at
    assert client.files.retrieve(batch.output_file_id).purpose == "batch_output"
    got = {a["custom_id"]: a for a in answers(client, batch.output_file_id)}
    assert len(got) == 50
    for line in lines[::10]:
        a = got[line["custom_id"]]
        assert a["error"] is None and a["response"]["status_code"] == 200 and a["id"].startswith("batch_req_")
        direct = served.post(url, line["body"]).json()
        assert a["response"]["body"]["choices"] == direct["choices"]
        assert a["response"]["body"]["usage"]["completion_tokens"] == 9
    assert [b.id for b in client.batches.list()] == [batch.id]


DIALECTS = {
    "/v1/responses": ({"input": "text", "max_output_tokens": 9}, lambda b: (b["output"], b["usage"]["output_tokens"])),
    "/v1/messages": ({"messages": [{"role": "user", "content": "text"}], "max_tokens": 9},
                     lambda b: ([c["text"] for c in b["content"]], b["usage"]["output_tokens"])),
}


@pytest.mark.parametrize("url", DIALECTS)
def test_a_batch_in_another_dialect(client, served, url):
    """Answers, refusals and their shapes are those of the endpoint."""
    good, said = DIALECTS[url]
    bodies = [{"model": "sim", "temperature": 0, **good}, {**good, "temperature": "hot"}, {**good, "stream": True}]
    lines = [{"custom_id": str(i), "method": "POST", "url": url, "body": b} for i, b in enumerate(bodies)]
    batch = wait(client, start(client, lines, endpoint=url))
    assert batch.request_counts.model_dump() == {"total": 3, "completed": 1, "failed": 2}
    (answer,) = answers(client, batch.output_file_id)
    body, direct = answer["response"]["body"], served.post(url, bodies[0]).json()
    texts = [said(b)[0] for b in (body, direct)]
    for item in texts[0] + texts[1]:  # ids differ
        if isinstance(item, dict):
            item.pop("id")
    assert texts[0] == texts[1] and said(body)[1] == said(direct)[1] == 9
    for bad in answers(client, batch.error_file_id):
        refused = bad["response"]["body"]
        assert bad["response"]["status_code"] == 400 and refused["error"]["message"]
        assert ("request_id" in refused) == (url == "/v1/messages")


def test_lines_that_fail_go_into_the_error_file(client):
    lines = lines_of(["a", "b", "c", "d"])
    lines[1]["body"]["temperature"] = "hot"
    lines[2]["body"]["stream"] = True
    lines[3]["body"]["service_tier"] = "priority"  # it stays batch work
    batch = wait(client, start(client, lines))
    assert batch.status == "completed"
    assert batch.request_counts.model_dump() == {"total": 4, "completed": 2, "failed": 2}
    bad = {a["custom_id"]: a["response"] for a in answers(client, batch.error_file_id)}
    assert {k: v["status_code"] for k, v in bad.items()} == {"line-1": 400, "line-2": 400}
    assert bad["line-1"]["body"]["error"]["param"] == "temperature"
    assert bad["line-2"]["body"]["error"]["param"] == "stream"


def test_bad_input_fails_the_batch_and_says_where(client):
    lines = lines_of("abcdef")
    lines[1]["custom_id"] = "line-0"
    lines[2]["method"] = "GET"
    lines[3]["url"] = "/v1/completions"
    del lines[4]["body"]
    batch = wait(client, start(client, jsonl(lines) + b"\n{nonsense\n"))
    assert batch.status == "failed" and batch.failed_at and batch.output_file_id is None
    assert {(e.line, e.code) for e in batch.errors.data} == {
        (2, "duplicate_custom_id"), (3, "invalid_method"), (4, "mismatched_url"), (5, "missing_required_parameter"),
        (8, "invalid_json_line")}
    assert wait(client, start(client, b"\n\n")).errors.data[0].code == "empty_file"
    for fields in ({"window": "1y"}, {"window": "0h"}, {"endpoint": "/v1/embeddings"}):
        with pytest.raises(openai.BadRequestError):
            start(client, lines, **fields)
    with pytest.raises(openai.BadRequestError):
        client.batches.create(input_file_id="file-1", endpoint="/v1/completions", completion_window="24h")


def test_expired_lines_are_reported(serve, tmp_path):
    server = serve("--runner", "sim:reply_tokens=2000,decode_base_us=3000,context_length=8192", "--batch-dir",
                   tmp_path / "b", "--parallel", 4)
    with client_of(server) as client:
        lines = lines_of("abcdefgh", max_tokens=2000)
        lines[0]["body"]["max_tokens"] = 1
        batch = wait(client, start(client, lines, window="2s"))
        assert batch.status == "expired" and batch.expired_at >= batch.expires_at
        assert batch.request_counts.completed == 1 and batch.request_counts.failed == 7
        lost = answers(client, batch.error_file_id)
        assert {a["error"]["code"] for a in lost} == {"batch_expired"} and all(a["response"] is None for a in lost)
        assert len(lost) == 7 and len(answers(client, batch.output_file_id)) == 1
        assert server.held_pages() == 0


def test_a_batch_is_cancelled(serve, tmp_path):
    server = serve("--runner", "sim:reply_tokens=500,decode_base_us=2000", "--batch-dir", tmp_path / "b",
                   "--parallel", 4)
    with client_of(server) as client:
        lines = lines_of([str(i) for i in range(300)], max_tokens=400)
        lines[0]["body"]["max_tokens"] = 1
        batch = start(client, lines)
        with pytest.raises(openai.ConflictError):
            client.files.delete(batch.input_file_id)
        while client.batches.retrieve(batch.id).request_counts.completed < 1:
            time.sleep(0.02)
        assert client.batches.cancel(batch.id).status == "cancelling"
        batch = wait(client, batch)
        assert batch.status == "cancelled" and batch.cancelled_at >= batch.cancelling_at
        done = answers(client, batch.output_file_id)
        assert 1 <= len(done) == batch.request_counts.completed < 300
        assert server.metric("vllm:num_requests_running") == 0
        with pytest.raises(openai.ConflictError):
            client.batches.cancel(batch.id)
        assert client.files.delete(batch.input_file_id).deleted


def test_tenants_see_their_own_only(serve, tmp_path):
    config = tmp_path / "tenants.ini"
    config.write_text("[tenant a]\nkey = key-of-a-0123456789\n[tenant b]\nkey = key-of-b-0123456789\n")
    config.chmod(0o600)
    server = serve(*SIM, "--batch-dir", tmp_path / "batch", "--config", config)
    with client_of(server, "key-of-a-0123456789") as a, client_of(server, "key-of-b-0123456789") as b:
        batch = wait(a, start(a, lines_of("abc")))
        assert batch.status == "completed"
        assert not list(b.files.list()) and not list(b.batches.list())
        assert len(list(a.files.list())) == 2 and len(list(a.files.list(purpose="batch"))) == 1
        for call in (lambda: b.files.retrieve(batch.output_file_id), lambda: b.files.content(batch.input_file_id),
                     lambda: b.files.delete(batch.input_file_id), lambda: b.batches.retrieve(batch.id),
                     lambda: b.batches.cancel(batch.id)):
            with pytest.raises(openai.NotFoundError):
                call()
        with pytest.raises(openai.BadRequestError):
            b.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/completions", completion_window="24h")


def test_a_kill_loses_and_repeats_nothing(tmp_path):
    flags = ("--runner", "sim:reply_tokens=12,decode_base_us=2000", "--batch-dir", tmp_path / "batch", "--parallel", 4)
    count = 400
    server = Server(*flags)
    with client_of(server) as client:
        batch = start(client, lines_of([f"text {i}" for i in range(count)]))
    kept = set()
    for turn in range(4):
        with client_of(server) as client:
            before = client.batches.retrieve(batch.id).request_counts.completed
            while client.batches.retrieve(batch.id).request_counts.completed < before + 20 + 7 * turn:
                time.sleep(0.01)
            counted = client.batches.retrieve(batch.id).request_counts.completed
        server.process.send_signal(signal.SIGKILL if turn < 3 else signal.SIGTERM)
        server.process.wait()
        server.http.close()
        (output,) = [p for p in (tmp_path / "batch" / "files").iterdir() if b"batch_req_" in p.read_bytes()[:40]]
        whole = output.read_bytes()
        ids = [json.loads(line)["id"] for line in whole.splitlines(keepends=True) if line.endswith(b"\n")]
        assert len(ids) == len(set(ids)) >= counted and kept <= set(ids)
        kept = set(ids)
        if turn == 1:
            output.write_bytes(whole + b'{"id":"batch_req_torn')
        server = Server(*flags)
    with client_of(server) as client:
        batch = wait(client, batch)
        assert batch.status == "completed" and batch.request_counts.completed == count
        done = answers(client, batch.output_file_id)
        assert sorted(a["custom_id"] for a in done) == sorted(f"line-{i}" for i in range(count))
        assert kept <= {a["id"] for a in done}
    assert server.stop() == 0


def test_batches_run_beside_chats(serve, tmp_path):
    server = serve("--runner", "sim:reply_tokens=50,decode_base_us=2000", "--batch-dir", tmp_path / "b",
                   "--parallel", 8)
    with client_of(server) as client:
        batch = start(client, lines_of([str(i) for i in range(200)]))
        for _ in range(10):
            assert server.chat("hello", max_tokens=5).status_code == 200
        assert client.batches.retrieve(batch.id).status == "in_progress"
        assert wait(client, batch).request_counts.completed == 200
