"""Anthropic's Messages: the official package, and each object and event against the package's own models."""

import json
import time

import anthropic
import pytest
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent

from dialects import ARGUMENTS, call, sse, start, strict

TOOLS = [
    {
        "name": "weather",
        "description": "of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
HI = [{"role": "user", "content": "hi"}]


def client(server, **kwargs):
    return anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0, timeout=30, **kwargs)


def ask(server, messages=HI, **fields):
    return server.post("/v1/messages", {"model": "m", "max_tokens": 500, "messages": messages, **fields})


def stream(server, messages=HI, **fields):
    """The events of a stream, each checked, pings and order too."""
    answer = ask(server, messages, stream=True, **fields)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for name, data in sse(answer.text):
        assert json.loads(data)["type"] == name
        if name != "ping":
            found.append(strict(RawMessageStreamEvent, data))
    assert [e.type for e in found][0] == "message_start" and [e.type for e in found][-2:] == [
        "message_delta",
        "message_stop",
    ]
    open_at, expected = None, 0
    for e in found:
        if e.type == "content_block_start":
            assert open_at is None and e.index == expected
            open_at = e.index
        elif e.type == "content_block_delta":
            assert e.index == open_at
        elif e.type == "content_block_stop":
            assert e.index == open_at
            open_at, expected = None, expected + 1
    assert open_at is None
    return found


def blocks(message):
    return [b.model_dump(exclude_none=True) for b in message.content]


def untimed(message):
    """What does not differ between two answers to one question."""
    return (
        [{k: v for k, v in b.items() if k != "id"} for b in blocks(message)],
        message.stop_reason,
        message.stop_sequence,
    )


def test_text_whole_and_streamed(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": 'Grüße, <b>\n"you"', "times": 0}])
    whole = strict(Message, ask(server).text)
    assert blocks(whole) == [{"type": "text", "text": 'Grüße, <b>\n"you"'}]
    assert (whole.stop_reason, whole.stop_sequence, whole.id[:4]) == ("end_turn", None, "msg_")
    stream(server)
    with client(server).messages.stream(model="m", max_tokens=500, messages=HI) as s:
        assert "".join(s.text_stream) == 'Grüße, <b>\n"you"'
        last = s.get_final_message()
    assert untimed(last) == untimed(whole)
    assert last.usage.output_tokens == whole.usage.output_tokens
    raw = client(server).messages.with_raw_response.create(model="m", max_tokens=4, messages=HI)
    assert raw.headers["request-id"].startswith("req_")
    assert raw.parse().stop_reason == "max_tokens" and raw.parse().usage.output_tokens == 4
    assert untimed(raw.parse())[0] == [{"type": "text", "text": "Grü"}]


def test_stop_sequences(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "one two three", "times": 0}])
    m = client(server).messages.create(model="m", max_tokens=50, messages=HI, stop_sequences=["three", " two"])
    assert (m.stop_reason, m.stop_sequence, m.content[0].text) == ("stop_sequence", " two", "one")
    end = stream(server, stop_sequences=["three", " two"])[-2]
    assert (end.delta.stop_reason, end.delta.stop_sequence) == ("stop_sequence", " two")


def test_usage_counts_what_was_cached_apart(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "yes", "times": 0}])
    messages = [{"role": "user", "content": "word " * 60}]
    counted = strict(MessageTokensCount, server.post("/v1/messages/count_tokens", {"messages": messages}).text)
    assert client(server).messages.count_tokens(model="m", messages=messages).input_tokens == counted.input_tokens
    first = strict(Message, ask(server, messages).text).usage
    again = strict(Message, ask(server, messages).text).usage
    events = stream(server, messages)
    assert first.input_tokens == counted.input_tokens and first.cache_read_input_tokens == 0
    assert again.cache_read_input_tokens > 200
    for usage in (first, again, events[0].message.usage, events[-2].usage):
        assert (
            usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
            == counted.input_tokens
        )
    assert events[0].message.usage.cache_read_input_tokens == events[-2].usage.cache_read_input_tokens > 200
    assert first.output_tokens == events[-2].usage.output_tokens == 3


def test_a_session_with_a_tool(serve, tmp_path):
    reply = "Let me look.\n" + call() + "\n" + call("weather", {"city": "Bonn"})
    server = start(
        serve, tmp_path, [{"reply": "It rains.", "match": "12 degrees", "times": 0}, {"reply": reply, "times": 0}]
    )
    c = client(server)
    first = c.messages.create(model="m", max_tokens=900, messages=HI, tools=TOOLS)
    assert first.stop_reason == "tool_use" and [b.type for b in first.content] == ["text", "tool_use", "tool_use"]
    assert first.content[1].input == ARGUMENTS and first.content[1].id.startswith("toolu_")
    strict(Message, ask(server, tools=TOOLS).text)
    parts = "".join(
        e.delta.partial_json
        for e in stream(server, tools=TOOLS)
        if e.type == "content_block_delta" and e.delta.type == "input_json_delta" and e.index == 1
    )
    assert json.loads(parts) == ARGUMENTS
    with c.messages.stream(model="m", max_tokens=900, messages=HI, tools=TOOLS) as s:
        assert untimed(s.get_final_message()) == untimed(first)
    results = [
        {
            "type": "tool_result",
            "tool_use_id": b.id,
            "content": [{"type": "text", "text": "12 degrees"}],
            "cache_control": {"type": "ephemeral"},
        }
        for b in first.content[1:]
    ]
    second = c.messages.create(
        model="m",
        max_tokens=900,
        tools=TOOLS,
        system=[{"type": "text", "text": "Be brief."}],
        messages=[
            *HI,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [*results, {"type": "text", "text": "and?"}]},
        ],
    )
    assert second.content[0].text == "It rains." and second.stop_reason == "end_turn"


def test_one_call_where_one_is_asked_for(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": call() + call(), "times": 0}])
    one = client(server).messages.create(
        model="m",
        max_tokens=900,
        messages=HI,
        tools=TOOLS,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    )
    assert [b.type for b in one.content] == ["tool_use"] and one.stop_reason == "tool_use"
    none = client(server).messages.create(
        model="m", max_tokens=900, messages=HI, tools=TOOLS, tool_choice={"type": "none"}
    )
    assert [b.type for b in none.content] == ["text"] and none.stop_reason == "end_turn"


def test_a_call_that_is_cut_off_is_no_call(serve, tmp_path):
    long = call("weather", {"city": "x" * 700})
    server = start(serve, tmp_path, [{"reply": long, "times": 0}])
    whole = strict(Message, ask(server, tools=TOOLS, max_tokens=650).text)
    assert whole.stop_reason == "max_tokens" and [b.type for b in whole.content] == ["text"]
    assert stream(server, tools=TOOLS, max_tokens=650)[-2].delta.stop_reason == "max_tokens"


def test_thoughts(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "<think>\nhm, hm\n</think>\n\nYes.", "times": 0}])
    thinking = {"type": "enabled", "budget_tokens": 1024}
    whole = strict(Message, ask(server, thinking=thinking, max_tokens=2000).text)
    assert [b.type for b in whole.content] == ["thinking", "text"]
    assert whole.content[0].thinking == "hm, hm" and whole.content[0].signature and whole.content[1].text == "Yes."
    assert 0 < whole.usage.output_tokens_details.thinking_tokens < whole.usage.output_tokens
    events = stream(server, thinking=thinking, max_tokens=2000)
    kinds = [e.delta.type for e in events if e.type == "content_block_delta"]
    assert kinds[0] == "thinking_delta" and "signature_delta" in kinds and kinds[-1] == "text_delta"
    with client(server).messages.stream(model="m", max_tokens=2000, messages=HI, thinking=thinking) as s:
        assert untimed(s.get_final_message()) == untimed(whole)
    again = client(server).messages.create(
        model="m",
        max_tokens=2000,
        thinking={"type": "adaptive"},
        messages=[*HI, {"role": "assistant", "content": whole.content}, {"role": "user", "content": "sure?"}],
    )
    assert again.content[1].text == "Yes."


def test_thinking_is_off_unless_asked_for(serve, tmp_path):
    server = start(
        serve, tmp_path, [{"reply": "off", "match": "[no thoughts]", "times": 0}, {"reply": "on", "times": 0}]
    )
    off, on = {"type": "disabled"}, {"type": "enabled", "budget_tokens": 10}
    assert [ask(server, **f).json()["content"][-1]["text"] for f in ({}, {"thinking": off}, {"thinking": on})] == [
        "off",
        "off",
        "on",
    ]


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "messages.0"),
        ({"messages": [*HI, {"role": "assistant", "content": "Well"}], "thinking": {"type": "adaptive"}}, "messages.1"),
        (
            {
                "messages": [*HI, {"role": "assistant", "content": "Well"}],
                "output_config": {"format": {"type": "json_schema", "schema": {"type": "integer"}}},
            },
            "begins the answer",
        ),
        (
            {"messages": [*HI, {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, *HI]},
            "messages.1.content.0",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {}}]}
                        ],
                    }
                ]
            },
            "messages.0.content.0",
        ),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0"),
        ({"tools": [{"name": "x"}]}, "tools.0"),
        ({"tool_choice": {"type": "some"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "nope"}, "tools": TOOLS}, "nope"),
        ({"thinking": {"type": "enabled"}}, "budget_tokens"),
        ({"n": 2}, "n is not supported"),
        ({"logprobs": True}, "logprobs"),
        ({"mcp_servers": [{"name": "x"}]}, "mcp_servers"),
        ({"system": 5}, "system"),
    ],
)
def test_what_is_wrong_is_named(serve_once, fields, words):
    answer = ask(serve_once, **{**{"messages": HI}, **fields})
    assert answer.status_code == 400
    error = answer.json()
    assert error["type"] == "error" and error["error"]["type"] == "invalid_request_error"
    assert words in error["error"]["message"] and error["request_id"] == answer.headers["request-id"]


@pytest.fixture(scope="module")
def serve_once():
    from conftest import Server

    server = Server("--runner", "sim:reply_tokens=20,decode_base_us=1000")
    yield server
    assert server.stop() == 0


def test_errors_are_the_packages_own(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "x", "times": 0}], "--api-key", "secret")
    with pytest.raises(anthropic.AuthenticationError) as caught:
        client(server).messages.create(model="m", max_tokens=5, messages=HI)
    assert caught.value.body["error"]["type"] == "authentication_error"
    assert caught.value.request_id == caught.value.body["request_id"]
    with pytest.raises(anthropic.AuthenticationError):
        client(server).messages.count_tokens(model="m", messages=HI)
    good = anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0)
    assert good.messages.create(model="m", max_tokens=5, messages=HI).content[0].text == "x"
    with pytest.raises(anthropic.BadRequestError) as caught:
        good.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "x" * 100000}])
    assert "context" in caught.value.message
    assert (
        good.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x" * 100000}]).input_tokens
        > 100000
    )
    bad = server.http.post("/v1/messages", content=b"{", headers={"x-api-key": "secret"})
    assert bad.json()["error"]["type"] == "invalid_request_error"
    assert (
        server.http.post(
            "/v1/messages", content=b"x", headers={"x-api-key": "secret", "content-type": "text/plain"}
        ).json()["type"]
        == "error"
    )


def test_work_stops_when_the_client_leaves(serve, tmp_path):
    server = start(
        serve, tmp_path, [{"settings": {"decode_base_us": 20000}}, {"reply": "abc", "end": False, "times": 0}]
    )
    with client(server).messages.stream(model="m", max_tokens=3000, messages=HI) as s:
        next(iter(s.text_stream))
        assert server.held_pages() > 0
    end = time.monotonic() + 10
    while server.held_pages() > 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_pings_while_a_prompt_is_read(serve, tmp_path):
    server = start(serve, tmp_path, [{"settings": {"decode_base_us": 5500000}}, {"reply": "abc", "times": 0}])
    names = [name for name, _ in sse(ask(server, stream=True, max_tokens=1).text)]
    assert "ping" in names and names[0] in ("ping", "message_start")


def test_a_block_that_says_whom_to_bill_does_not_undo_the_cache(serve, tmp_path):
    server = start(serve, tmp_path, [{"reply": "x", "times": 0}])

    def tokens(n):
        system = [
            {"type": "text", "text": f"x-anthropic-billing-header: cch={n}"},
            {"type": "text", "text": "Be brief."},
        ]
        return ask(server, system=system).json()["usage"]

    total = sum(v for k, v in tokens("a").items() if k.endswith("input_tokens"))
    assert total == sum(
        v for k, v in ask(server, system="Be brief.").json()["usage"].items() if k.endswith("input_tokens")
    )


def test_an_answer_that_the_client_begins(serve, tmp_path):
    """The prompt ends with the client's words, a stream says the same, and only what follows comes back."""
    server = start(
        serve, tmp_path, [{"reply": " seven.", "match": "assistant\nI count", "times": 0}, {"reply": "no", "times": 0}]
    )
    begun = [*HI, {"role": "assistant", "content": [{"type": "text", "text": "I cou"}, {"type": "text", "text": "nt"}]}]
    with client(server) as c:
        message = c.messages.create(model="m", max_tokens=9, messages=begun)
        assert blocks(message) == [{"type": "text", "text": " seven."}] and message.stop_reason == "end_turn"
        with c.messages.stream(model="m", max_tokens=9, messages=begun) as s:
            assert s.get_final_text() == " seven."
        counted = c.messages.count_tokens(model="m", messages=begun).input_tokens
    assert counted == message.usage.input_tokens + message.usage.cache_read_input_tokens
