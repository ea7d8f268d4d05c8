"""Ollama's dialect, by hand, and by its own package in a virtual environment (make test-clients)."""

import json
import os
import subprocess

import pytest

CALL = "{%s}" % '"name": "weather", "arguments": {"city": "Köln"}'
HERMES = (
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools> answer in "
    "<tool_call>{\"name\": …, \"arguments\": …}</tool_call>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def chat(server, text="hello", **fields):
    return server.post("/api/chat", {"model": "sim", "messages": [{"role": "user", "content": text}], **fields})


def lines(answer):
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_prompt_of_the_wrong_type_is_refused_and_none_at_all_loads(sim):
    for wrong in (5, [], {}, True):
        answer = sim.post("/api/generate", {"model": "sim", "prompt": wrong})
        assert answer.status_code == 400 and "prompt" in answer.json()["error"], wrong
    for none in ({}, {"prompt": ""}, {"prompt": None}):
        assert sim.post("/api/generate", {"model": "sim", **none}).json()["done_reason"] == "load"


def test_a_stream_and_a_whole_answer_say_the_same(sim):
    options = {"temperature": 0, "num_predict": 12, "num_ctx": 2048, "num_thread": 8}
    whole = chat(sim, stream=False, options=options).json()
    parts = lines(chat(sim, options=options))
    assert "".join(p["message"]["content"] for p in parts) == whole["message"]["content"] != ""
    assert [p["done"] for p in parts] == [False] * (len(parts) - 1) + [True]
    for end in (parts[-1], whole):
        assert end["done_reason"] == "length" and end["eval_count"] == 12 and end["model"] == "sim"
        assert end["total_duration"] >= end["eval_duration"] > 1_000_000 and end["prompt_eval_count"] > 0
    direct = sim.chat("hello", temperature=0, max_tokens=12).json()
    assert direct["choices"][0]["message"]["content"] == whole["message"]["content"]
    assert direct["usage"]["prompt_tokens"] == whole["prompt_eval_count"]


def test_generate_with_and_without_the_template(sim):
    ask = {"model": "sim", "prompt": "hello", "stream": False, "options": {"temperature": 0, "num_predict": 8}}
    templated, raw = sim.post("/api/generate", ask).json(), sim.post("/api/generate", {**ask, "raw": True}).json()
    assert templated["response"] == chat(sim, stream=False, options=ask["options"]).json()["message"]["content"]
    assert raw["prompt_eval_count"] == 5 < templated["prompt_eval_count"]
    parts = lines(sim.post("/api/generate", {**ask, "stream": True}))
    assert "".join(p["response"] for p in parts) == templated["response"] and parts[-1]["done"]
    longer = sim.post("/api/generate", {**ask, "raw": True, "options": {"temperature": 0}}).json()
    assert longer["eval_count"] == 40 and longer["done_reason"] == "stop"  # no limit of 16
    system = sim.post("/api/generate", {**ask, "system": "be brief"}).json()
    assert system["prompt_eval_count"] > templated["prompt_eval_count"]


def test_what_is_not_there_is_refused_in_its_shape(sim):
    for fields, word in [({"options": {"num_ctx": 1 << 24}}, "num_ctx"),
                         ({"options": {"temperature": "x"}}, "temperature"),
                         ({"keep_alive": "soon"}, "keep_alive"), ({"stream": 1}, "stream"), ({"options": 1}, "options"),
                         ({"options": {"mirostat": 1}}, "mirostat"), ({"logprobs": True}, "logprobs"),
                         ({"messages": [], "keep_alive": 0}, "keep_alive"), ({"format": 3}, "format"),
                         ({"tools": "x"}, "tools"),
                         ({"messages": [{"role": "user", "content": "x", "images": ["aa"]}]}, "images")]:
        answer = chat(sim, **fields)
        assert answer.status_code == 400 and list(answer.json()) == ["error"] and word in answer.json()["error"], fields
    for name in ("suffix", "template", "context"):
        answer = sim.post("/api/generate", {"model": "sim", "prompt": "a", name: [1] if name == "context" else "b"})
        assert answer.status_code == 400 and name in answer.json()["error"]
    assert sim.post("/api/embed", {"model": "sim", "input": "a"}).status_code == 501
    assert sim.post("/api/show", {"model": "other"}).json()["error"].startswith("model 'other' not found")
    assert sim.http.post("/api/chat", content=b"{").json()["error"].startswith("the body is not valid JSON")


def test_keep_alive_loads_and_never_unloads(sim):
    for value in ("5m", 300, -1, "-1m", "1h30m", None):
        assert chat(sim, stream=False, keep_alive=value, options={"num_predict": 1}).status_code == 200
    answer = chat(sim, stream=False, keep_alive=0, options={"num_predict": 1})
    assert answer.status_code == 200 and "keep_alive" in answer.headers["x-headway-warning"]
    for path in ("/api/chat", "/api/generate"):
        assert sim.post(path, {"model": "sim"}).json()["done_reason"] == "load"


def test_the_model_is_described(sim):
    (model,) = sim.http.get("/api/tags").json()["models"]
    assert model["name"] == model["model"] == "sim" and len(model["digest"]) == 64 and model["modified_at"]
    (running,) = sim.http.get("/api/ps").json()["models"]
    assert running["name"] == "sim" and running["context_length"] > 0 and running["expires_at"]
    shown = sim.post("/api/show", {"model": "sim:latest"}).json()
    assert "completion" in shown["capabilities"] and shown["model_info"]["general.architecture"]
    assert sim.http.get("/api/version").json()["version"]


def test_calls_come_whole_and_go_back(serve, tmp_path):
    template = tmp_path / "hermes.jinja"
    template.write_text(HERMES)
    server = serve("--chat-template", template, script=[{"reply": f"<tool_call>\n{CALL}\n</tool_call>"}] * 3)
    for stream in (False, True):
        answer = chat(server, stream=stream, tools=TOOLS)
        objects = lines(answer) if stream else [answer.json()]
        calls = [c for o in objects for c in o["message"].get("tool_calls", [])]
        assert [(c["function"]["name"], c["function"]["arguments"]) for c in calls] == [("weather", {"city": "Köln"})]
        assert objects[-1]["done_reason"] == "stop"
    history = [{"role": "user", "content": "weather?"},
               {"role": "assistant", "content": "",
                "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Köln"}}}]},
               {"role": "tool", "tool_name": "weather", "content": "rain"}]
    assert chat(server, messages=history, tools=TOOLS, stream=False).status_code == 200


def test_llama_servers_own_endpoints(sim):
    ask = {"prompt": "hello", "n_predict": 8, "temperature": 0, "cache_prompt": False}
    whole = sim.post("/completion", ask).json()
    assert whole["stop"] and whole["stop_type"] == "limit" and whole["tokens_predicted"] == 8
    assert whole["timings"]["predicted_n"] == 8 and whole["timings"]["cache_n"] == 0 and not whole["truncated"]
    assert whole["generation_settings"]["n_predict"] == 8 and whole["tokens_evaluated"] == 5
    parts = [json.loads(line[6:]) for line in sim.post("/completion", {**ask, "stream": True}).text.splitlines()
             if line.startswith("data: ")]
    assert "".join(p["content"] for p in parts) == whole["content"] and parts[-1]["stop"]
    assert "timings" in parts[-1]
    free = sim.post("/completion", {"prompt": [104, 105], "temperature": 0}).json()
    assert free["stop_type"] == "eos" and free["tokens_predicted"] == 40
    word = sim.post("/completion", {**ask, "n_predict": 40, "stop": [whole["content"][3:5]]}).json()
    assert word["stop_type"] == "word" and word["stopping_word"] == whole["content"][3:5]
    assert sim.post("/completion", {"prompt": ["a", "b"]}).status_code == 400
    props = sim.http.get("/props").json()
    assert props["total_slots"] > 0 and props["default_generation_settings"]["n_ctx"] == props["n_ctx"] > 0
    slots = sim.http.get("/slots?fail_on_no_slot=1").json()
    assert slots and not any(s["is_processing"] for s in slots) and slots[0]["n_ctx"] == props["n_ctx"]


CLIENT = """
import ollama, sys
c = ollama.Client(host=sys.argv[1], trust_env=False)
assert c.list().models[0].model == "sim" and c.ps().models[0].model == "sim"
assert "completion" in c.show("sim").capabilities
ask = dict(model="sim", messages=[{"role": "user", "content": "hi"}], options={"temperature": 0, "num_predict": 9})
whole = c.chat(**ask)
assert whole.eval_count == 9 and whole.done_reason == "length" and whole.total_duration > 0
assert "".join(p.message.content for p in c.chat(**ask, stream=True)) == whole.message.content
one = c.generate(model="sim", prompt="hi", options={"temperature": 0, "num_predict": 9}, keep_alive="5m")
assert one.response == whole.message.content
try:
    c.chat(model="sim", messages=[{"role": "user", "content": "hi"}], options={"num_ctx": 1 << 24})
    raise SystemExit("no error")
except ollama.ResponseError as e:
    assert e.status_code == 400 and "num_ctx" in e.error
print("fine")
"""


@pytest.mark.clients
def test_its_own_package(sim):
    python = os.environ.get("HEADWAY_OLLAMA_PYTHON")
    if not python:
        pytest.skip("HEADWAY_OLLAMA_PYTHON is not set")
    done = subprocess.run([python, "-c", CLIENT, sim.url], capture_output=True, text=True, timeout=60)
    assert done.stdout == "fine\n", done.stderr
