"""OpenAI's Responses: the official package, and each object and event against the package's own models."""

import json
import time

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from dialects import ARGUMENTS, call, sse, start, strict

TOOLS = [
    {
        "type": "function",
        "name": "weather",
        "description": "of a city",
        "strict": False,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
DONE = ("response.completed", "response.incomplete", "response.failed")


def client(server, key="k"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=30)


def ask(server, said="hi", **fields):
    return server.post("/v1/responses", {"model": "m", "input": said, **fields})


def stream(server, said="hi", **fields):
    """The events of a stream, each checked; the items that they tell of must be those of the last response."""
    answer = ask(server, said, stream=True, **fields)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for name, data in sse(answer.text):
        assert json.loads(data)["type"] == name and json.loads(data)["sequence_number"] == len(found)
        found.append(strict(ResponseStreamEvent, data))
    assert [e.type for e in found[:2]] == ["response.created", "response.in_progress"] and found[-1].type in DONE
    items, deltas = [], ""
    for e in found:
        if e.type == "response.output_item.added":
            assert e.output_index == len(items)
            current, deltas = e.item, ""
        elif e.type.endswith(".delta"):
            assert e.item_id == current.id and e.output_index == len(items)
            deltas += e.delta
        elif e.type in ("response.output_text.done", "response.reasoning_text.done"):
            assert e.text == deltas
        elif e.type == "response.function_call_arguments.done":
            assert e.arguments == deltas == "" or e.arguments == deltas
        elif e.type == "response.output_item.done":
            assert e.item.id == current.id and e.output_index == len(items)
            items.append(e.item)
    assert items == found[-1].response.output
    return found


def without(value, names):
    if isinstance(value, dict):
        return {k: without(v, names) for k, v in value.items() if k not in names}
    return [without(v, names) for v in value] if isinstance(value, list) else value


def untimed(response):
    """What does not differ between two answers to one question, nor with what the package adds to it."""
    output = [without(i.model_dump(), ("id", "call_id", "parsed", "parsed_arguments")) for i in response.output]
    return output, response.status, response.incomplete_details


def streamed(server, text="hi", **fields):
    with client(server).responses.stream(model="m", input=text, **fields) as s:
        for _ in s:
            pass
        return s.get_final_response()


def test_text_whole_and_streamed(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": 'Grüße, <b>\n"you"', "times": 0}])
    whole = strict(Response, ask(server, instructions="Be brief.", metadata={"a": "b"}, temperature=0.5).text)
    assert whole.output_text == 'Grüße, <b>\n"you"' and whole.status == "completed" and whole.id.startswith("resp_")
    assert (whole.instructions, whole.metadata, whole.temperature) == ("Be brief.", {"a": "b"}, 0.5)
    assert whole.store is False and whole.tools == [] and whole.text.format.type == "text"
    events = stream(server)
    assert events[-1].type == "response.completed" and untimed(events[-1].response) == untimed(whole)
    assert (
        untimed(streamed(server)) == untimed(client(server).responses.create(model="m", input="hi")) == untimed(whole)
    )
    raw = client(server).responses.with_raw_response.create(model="m", input="hi", store=False)
    assert raw.parse()._request_id == raw.headers["x-request-id"] and raw.headers["x-request-id"].startswith("req_")


def test_an_answer_that_runs_out_of_tokens_is_incomplete(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "one two three", "times": 0}])
    whole = strict(Response, ask(server, max_output_tokens=3).text)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
    assert whole.output_text == "one" and whole.output[0].status == "incomplete" and whole.usage.output_tokens == 3
    events = stream(server, max_output_tokens=3)
    assert events[-1].type == "response.incomplete" and untimed(events[-1].response) == untimed(whole)


def test_usage(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "yes", "times": 0}])
    first, again = (strict(Response, ask(server, "word " * 60).text).usage for _ in range(2))
    last = stream(server, "word " * 60)[-1].response.usage
    assert first.input_tokens == again.input_tokens == last.input_tokens > 300
    assert first.input_tokens_details.cached_tokens == 0
    assert again.input_tokens_details.cached_tokens == last.input_tokens_details.cached_tokens > 200
    for usage in (first, again, last):
        assert usage.output_tokens == 3 and usage.total_tokens == usage.input_tokens + 3


def test_a_session_with_a_tool(serve, tmp_path):
    reply = "Let me look.\n" + call() + "\n" + call("weather", {"city": "Bonn"})
    server = start(
        serve, tmp_path, [{"reply": "It rains.", "match": "12 degrees", "times": 0}, {"reply": reply, "times": 0}]
    )
    first = client(server).responses.create(model="m", input="hi", tools=TOOLS, store=False)
    assert [i.type for i in first.output] == ["message", "function_call", "function_call"]
    assert json.loads(first.output[1].arguments) == ARGUMENTS and first.output[1].call_id.startswith("call_")
    strict(Response, ask(server, tools=TOOLS).text)
    assert (
        untimed(stream(server, tools=TOOLS)[-1].response) == untimed(streamed(server, tools=TOOLS)) == untimed(first)
    )
    history = [{"role": "user", "content": "hi"}, *(i.model_dump() for i in first.output)]
    history += [
        {"type": "function_call_output", "call_id": i.call_id, "output": "12 degrees"} for i in first.output[1:]
    ]
    second = client(server).responses.create(model="m", input=history, tools=TOOLS, store=False)
    assert second.output_text == "It rains."


def test_calls_of_one_answer_become_one_message(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "x", "times": 0}])
    history = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Well"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x":1}'},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "1"}]},
    ]
    chat = [
        {"role": "system", "content": "A\n\nB"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Well",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]
    server.post("/v1/chat/completions", {"messages": chat, "max_tokens": 1})
    usage = ask(server, [{"role": "developer", "content": "B"}, *history], instructions="A").json()["usage"]
    assert (
        usage["input_tokens"]
        == server.post("/v1/chat/completions", {"messages": chat}).json()["usage"]["prompt_tokens"]
    )
    assert usage["input_tokens_details"]["cached_tokens"] > 0.7 * usage["input_tokens"]  # the same prompt, then


def test_reasoning(serve, tmp_path):
    script = [
        {"reply": "remembered", "match": "hm, hm\n</think>\n\nYes.", "times": 0},
        {"reply": "<think>\nhm, hm\n</think>\n\nYes.", "match": "[effort high]", "times": 0},
        {"reply": "none", "match": "[no thoughts]", "times": 0},
    ]
    server = start(serve, tmp_path, script)
    fields = {"reasoning": {"effort": "high"}, "include": ["reasoning.encrypted_content"]}
    whole = strict(Response, ask(server, **fields).text)
    assert [i.type for i in whole.output] == ["reasoning", "message"] and whole.output_text == "Yes."
    assert whole.output[0].content[0].text == "hm, hm" and whole.reasoning.effort == "high"
    assert 0 < whole.usage.output_tokens_details.reasoning_tokens < whole.usage.output_tokens
    events = stream(server, **fields)
    assert untimed(events[-1].response) == untimed(whole) == untimed(streamed(server, **fields))
    assert "response.reasoning_text.delta" in [e.type for e in events]
    kept = [i.model_dump(exclude_none=True) for i in whole.output]
    hidden = [{k: v for k, v in kept[0].items() if k != "content"}, kept[1]]
    for items in (kept, hidden):
        history = [{"role": "user", "content": "hi"}, *items, {"role": "user", "content": "sure?"}]
        assert client(server).responses.create(model="m", input=history).output_text == "remembered"
    assert ask(server, reasoning={"effort": "none"}).json()["output"][0]["content"][0]["text"] == "none"


def test_a_schema(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": '{"a": 1}', "times": 0}])
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    text = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    answer = ask(server, text=text)
    assert json.loads(strict(Response, answer.text).output_text)["a"] == 1


@pytest.mark.parametrize(
    "fields, param, words",
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "not kept"),
        ({"conversation": "conv_1"}, "conversation", "kept"),
        ({"background": True}, "background", "kept"),
        ({"prompt": {"id": "p"}}, "prompt", "kept"),
        ({"truncation": "auto"}, "truncation", "disabled"),
        ({"input": []}, "input", "input"),
        ({"input": None}, "input", "input"),
        ({"input": [{"role": "bot", "content": "x"}]}, "input[0]", "role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0]",
            "input_image",
        ),
        (
            {"input": [{"role": "user", "content": "x"}, {"type": "item_reference", "id": "x"}]},
            "input[1]",
            "item_reference",
        ),
        ({"input": [{"type": "function_call", "name": "x"}]}, "input[0]", "call_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]", "web_search"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice", "tool_choice"),
        ({"max_output_tokens": 0}, "max_output_tokens", "at least 1"),
        ({"top_logprobs": 3}, "top_logprobs", "not supported"),
        ({"include": ["message.output_text.logprobs"]}, "include", "not supported"),
        ({"n": 3}, "n", "one answer"),
        ({"text": {"format": "json"}}, "text.format", "type"),
        ({"temperature": "hot"}, "temperature", "number"),
    ],
)
def test_what_is_wrong_is_named(sim, fields, param, words):
    answer = sim.post("/v1/responses", {"input": "hi", **fields})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param and words in error["message"] and error["type"] == "invalid_request_error"


def test_errors_are_the_packages_own(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "x", "times": 0}], "--api-key", "secret")
    with pytest.raises(openai.AuthenticationError) as caught:
        client(server).responses.create(model="m", input="hi")
    assert caught.value.request_id.startswith("req_")
    with pytest.raises(openai.BadRequestError) as caught:
        client(server, "secret").responses.create(model="m", input="hi", previous_response_id="resp_1")
    assert caught.value.param == "previous_response_id" and caught.value.request_id


def test_work_stops_when_the_client_leaves(serve, tmp_path):
    server = start(
        serve, tmp_path, [{"settings": {"decode_base_us": 20000}}, {"reply": "abc", "end": False, "times": 0}]
    )
    for e in client(server).responses.create(model="m", input="hi", stream=True):
        if e.type == "response.output_text.delta":
            assert server.held_pages() > 0
            break
    end = time.monotonic() + 10
    while server.held_pages() > 0:
        assert time.monotonic() < end
        time.sleep(0.05)
