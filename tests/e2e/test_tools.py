"""Tool calls and thoughts, by the openai package over a scripted model: every syntax, streamed and not."""

import json
import os

import openai
import pytest

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "deep": {"type": "object"}},
            "required": ["city"],
        },
    },
}
CODE = {
    "type": "function",
    "function": {
        "name": "run_code",
        "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    },
}
TOOLS = [WEATHER, CODE]
HELLO = [{"role": "user", "content": "hello"}]
TRICKY = "if a < b:\n    print(\"</tool_call>\", 'x')  # 東京"

# A template in the manner of Qwen 3: arguments that are text are printed as they are.
TEXT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t|tojson }}\n{% endfor %}"
    '<tool_call>{"name": …, "arguments": …}</tool_call><|im_end|>\n{% endif %}'
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n"
    "</think>\n\n{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {% if c.function.arguments is string %}{{ c.function.arguments }}'
    "{% else %}{{ c.function.arguments|tojson }}{% endif %}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking "
    "%}<think>\n\n</think>\n\n{% elif open_thought %}<think>\n{% endif %}{% endif %}"
)
# Arguments must be an object.
OBJECT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments|items %}<parameter={{ k }}>\n"
    "{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Arguments must be text.
STRING_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' + c.function.arguments }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def talk(serve, tmp_path):
    """talk(replies, template, *flags): a client of a server that says these."""
    clients = []

    def start(replies, template=TEXT_TEMPLATE, *flags):
        path = tmp_path / f"template{len(clients)}.jinja"
        path.write_text(template)
        script = [r if isinstance(r, dict) else {"reply": r, "times": 0} for r in replies]
        server = serve("--chat-template", path, *flags, script=script)
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()


def ask(client, messages=HELLO, tools=TOOLS, **fields):
    fields = {"tools": tools, **fields} if tools else fields
    return client.chat.completions.create(model="m", messages=messages, **fields)


def gather(chunks):
    """A streamed answer, put together as clients do."""
    out = {"content": "", "thought": "", "calls": [], "finish": None, "usage": None}
    for chunk in chunks:
        out["usage"] = chunk.usage or out["usage"]
        for choice in chunk.choices:
            out["content"] += choice.delta.content or ""
            out["thought"] += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                if call.index == len(out["calls"]):
                    assert call.id and call.type == "function"
                    out["calls"].append([call.function.name, ""])
                out["calls"][call.index][1] += call.function.arguments or ""
            out["finish"] = choice.finish_reason or out["finish"]
    return out


def whole(answer):
    message = answer.choices[0].message
    return {
        "content": message.content or "",
        "thought": getattr(message, "reasoning_content", None) or "",
        "calls": [[c.function.name, c.function.arguments] for c in message.tool_calls or []],
        "finish": answer.choices[0].finish_reason,
        "usage": answer.usage,
    }


def both(client, **fields):
    """The answer, which must be the same streamed."""
    one = whole(ask(client, **fields))
    two = gather(ask(client, stream=True, stream_options={"include_usage": True}, **fields))
    assert one.pop("usage").completion_tokens == two.pop("usage").completion_tokens
    assert one == two
    return one


ARGUMENTS = {"code": TRICKY}
SYNTAXES = {
    "hermes": f'<tool_call>\n{{"name": "run_code", "arguments": {json.dumps(ARGUMENTS)}}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=run_code>\n<parameter=code>\n"
    f"{TRICKY}\n</parameter>\n</function>\n</tool_call>",
    "llama3_json": f'{{"name": "run_code", "parameters": {json.dumps(ARGUMENTS)}}}',
    "pythonic": f"[run_code(code={TRICKY!r})]",
    "mistral": f"[TOOL_CALLS]run_code[ARGS]{json.dumps(ARGUMENTS, ensure_ascii=False)}",
    "gemma4": f'<|tool_call>call:run_code{{code:<|"|>{TRICKY}<|"|>}}<tool_call|>',
    "function_gemma": f"<start_function_call>call:run_code{{code:<escape>{TRICKY}<escape>}}<end_function_call>",
}


@pytest.mark.parametrize("family", SYNTAXES)
def test_every_syntax_is_the_same_call(talk, family):
    client = talk([SYNTAXES[family]], TEXT_TEMPLATE, "--tool-parser", family)
    answer = both(client)
    assert answer["finish"] == "tool_calls" and answer["content"] == ""
    assert [(name, json.loads(arguments)) for name, arguments in answer["calls"]] == [("run_code", ARGUMENTS)]


def test_a_session_with_tools(talk):
    call = '{"name": "get_weather", "arguments": {"city":"Paris",  "days": 2}}'
    calls = 2 * f"\n<tool_call>\n{call}\n</tool_call>"
    two = f"<think>\nI look.\n</think>\n\nLet me see.{calls}"
    client = talk([{"reply": "Rain, both days.", "match": "it rains", "times": 0}, two])
    answer = ask(client)
    message = answer.choices[0].message
    assert (message.content, message.reasoning_content) == ("Let me see.", "I look.")
    assert message.reasoning == "I look."
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.usage.completion_tokens_details.reasoning_tokens >= len("I look.")
    ids = [c.id for c in message.tool_calls]
    assert len(set(ids)) == 2 and all(json.loads(c.function.arguments)["days"] == 2 for c in message.tool_calls)
    history = [
        *HELLO,
        message.to_dict(),
        *({"role": "tool", "tool_call_id": i, "content": "it rains"} for i in ids),
    ]
    end = ask(client, messages=history)
    assert (end.choices[0].message.content, end.choices[0].finish_reason) == ("Rain, both days.", "stop")
    assert end.choices[0].message.tool_calls is None
    streamed = gather(ask(client, messages=history, stream=True))
    assert streamed["content"] == "Rain, both days."


def test_arguments_that_a_client_wrote_anew_meet_what_the_model_wrote(talk):
    """Other white space, other order of keys: the prompt holds the original text, and so meets the cache."""
    original = '{"days":2,  "city": "Par\\u0069s"}'
    client = talk(
        [
            {"reply": "original", "match": f'"arguments": {original}}}', "times": 0},
            {"reply": "another", "match": "it rains", "times": 0},
            f'<tool_call>\n{{"name": "get_weather", "arguments": {original}}}\n</tool_call>',
        ]
    )
    message = ask(client).choices[0].message.to_dict()
    assert message["tool_calls"][0]["function"]["arguments"] == original
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "it rains"}

    def answer(arguments):
        message["tool_calls"][0]["function"]["arguments"] = arguments
        return ask(client, messages=[*HELLO, message, result]).choices[0].message.content

    assert answer('{"city": "Paris", "days": 2}') == "original"
    assert answer({"city": "Paris", "days": 2}) == "original"
    assert answer('{"city": "Paris", "days": 3}') == "another"


@pytest.mark.parametrize(
    "template", [TEXT_TEMPLATE, OBJECT_TEMPLATE, STRING_TEMPLATE], ids=["text", "object", "string"]
)
@pytest.mark.parametrize("as_object", [False, True])
def test_history_in_the_form_that_the_template_takes(talk, template, as_object):
    client = talk([{"reply": "seen", "match": "Lyon", "times": 0}, "not seen"], template)
    arguments = {"city": "Lyon"} if as_object else '{"city": "Lyon"}'
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]
    assert ask(client, messages=messages, tools=None).choices[0].message.content == "seen"


def test_malformed_arguments_in_history_render_or_name_their_message(talk):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Ly'}}
    messages = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "user", "content": "go"}]
    assert ask(talk(["fine"]), messages=messages).choices[0].message.content == "fine"
    client = talk(["fine"], OBJECT_TEMPLATE)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, messages=messages)
    assert caught.value.param == "messages[1]" and "arguments" in str(caught.value)
    assert ask(client).choices[0].message.content == "fine"


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": }}\n</tool_call>',
        '<tool_call>\n{"name": "nobody", "arguments": {}}\n</tool_call>',
        "<tool_call>",
        "a <table> with <t",
    ],
)
def test_malformed_calls_are_text(talk, reply):
    answer = both(talk([reply]))
    assert answer == {"content": reply, "thought": "", "calls": [], "finish": "stop"}


def test_tool_choice(talk):
    reply = SYNTAXES["hermes"] + "\n" + SYNTAXES["hermes"]
    client = talk([reply])
    assert len(both(client)["calls"]) == 2
    none = both(client, tool_choice="none")
    assert none["content"] == reply and none["finish"] == "stop"
    assert len(both(client, parallel_tool_calls=False)["calls"]) == 1
    for choice in ("required", {"type": "function", "function": {"name": "run_code"}}):
        calls = both(client, tool_choice=choice)["calls"]
        assert calls and all(name == "run_code" for name, _ in calls)
    for bad in ("always", {"type": "function", "function": {"name": "nobody"}}):
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, tool_choice=bad)
        assert caught.value.param == "tool_choice"
    with pytest.raises(openai.BadRequestError):
        ask(client, tools=None, tool_choice="required")


def test_a_model_that_would_rather_talk_must_call(talk):
    client = talk([{"reply": "I would rather talk. ", "times": 0, "end": False}])
    for family_choice in ("required", {"type": "function", "function": {"name": "run_code"}}):
        answer = ask(client, tool_choice=family_choice, max_tokens=40)
        assert not (answer.choices[0].message.content or "").startswith("I would")


def test_reasoning_switches(talk):
    client = talk(
        [
            {"reply": "no thought", "match": "</think>\n\n", "times": 0},
            {"reply": "in thought</think>\n\nout", "match": "<think>", "times": 0},
            "<think>own</think>\n\nout",
        ]
    )
    assert both(client)["thought"] == "own"
    opened = both(client, extra_body={"chat_template_kwargs": {"open_thought": True}})
    assert (opened["thought"], opened["content"]) == ("in thought", "out")
    for off in (
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "none"},
        {"enable_thinking": False},
        {"thinking": {"type": "disabled"}},
        {"thinking_budget": 0},
    ):
        answer = both(client, extra_body=off)
        assert (answer["thought"], answer["content"]) == ("", "no thought"), off
    for bad in ({"thinking_budget": "much"}, {"reasoning_effort": 3}, {"thinking": True}):
        with pytest.raises(openai.BadRequestError):
            ask(client, extra_body=bad)


@pytest.mark.parametrize("name", ["thinking_budget", "max_thinking_tokens", "thinking_token_budget"])
def test_a_thinking_budget_ends_the_thought(talk, name):
    client = talk([{"reply": "0123456789" * 20, "times": 0}])
    fields = {"chat_template_kwargs": {"open_thought": True}, name: 25}
    answer = both(client, extra_body=fields)
    assert answer["thought"] == "0123456789" * 2 + "01234"
    assert answer["content"] and answer["finish"] == "stop"
    usage = ask(client, extra_body=fields).usage
    assert 25 <= usage.completion_tokens_details.reasoning_tokens <= 25 + len("\n</think>\n\n")


def test_calls_beside_stop_strings_choices_logprobs_and_limits(talk):
    client = talk(["Before. " + SYNTAXES["hermes"]])
    stopped = both(client, stop=["Before"])
    assert (stopped["content"], stopped["calls"], stopped["finish"]) == ("", [], "stop")
    three = ask(client, n=3, logprobs=True)
    assert [len(c.message.tool_calls) for c in three.choices] == [1, 1, 1]
    assert len({c.message.tool_calls[0].id for c in three.choices}) == 3
    assert len(three.choices[0].logprobs.content) * 3 in range(
        three.usage.completion_tokens - 6, three.usage.completion_tokens + 1
    )
    cut = both(client, max_tokens=30)
    assert cut["finish"] == "length" and cut["content"].startswith("Before. <tool_call>") and not cut["calls"]


def test_long_arguments_arrive_while_they_are_written(talk):
    code = "x = 1\n" * 400
    client = talk([f'<tool_call>\n{{"name": "run_code", "arguments": {json.dumps({"code": code})}}}\n</tool_call>'])
    chunks = [c for c in ask(client, stream=True) if c.choices and c.choices[0].delta.tool_calls]
    assert len(chunks) > 20
    assert json.loads("".join(c.choices[0].delta.tool_calls[0].function.arguments or "" for c in chunks)) == {
        "code": code
    }
    cut = both(client, max_tokens=1200)
    assert cut["finish"] == "length" and len(cut["calls"]) == 1
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut["calls"][0][1])


def test_parsers_are_checked_at_start(serve):
    with pytest.raises(AssertionError, match="tool-parser"):
        serve("--runner", "sim", "--tool-parser", "nonsense")
    with pytest.raises(AssertionError, match="reasoning-parser"):
        serve("--runner", "sim", "--reasoning-parser", "nonsense")


@pytest.mark.models
def test_a_small_model_that_must_call_calls_well(serve):
    """Qwen2.5-Coder-0.5B, hot: what it must call is there, with arguments that the schema allows."""
    path = os.environ.get("HEADWAY_QWEN25") or pytest.skip("HEADWAY_QWEN25 is not set: make test-models")
    server = serve("--model", path, "--ctx", 2048)
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=300) as client:
        for seed in range(6):
            answer = ask(client, tool_choice="required", temperature=1.2, max_tokens=400, seed=seed)
            calls = answer.choices[0].message.tool_calls
            if answer.choices[0].finish_reason == "length":
                continue
            assert calls and answer.choices[0].finish_reason == "tool_calls"
            for call in calls:
                arguments = json.loads(call.function.arguments)
                wanted = "city" if call.function.name == "get_weather" else "code"
                assert isinstance(arguments[wanted], str)
