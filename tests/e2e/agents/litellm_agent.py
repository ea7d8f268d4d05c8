"""The loop of a small agent on litellm, in a dialect, streamed or not; prints what it did as JSON.
usage: litellm_agent.py URL chat|anthropic whole|stream TASK"""

import json
import sys

import litellm

url, dialect, form, task = sys.argv[1:]
where = {"model": "openai/script", "api_base": url + "/v1"}
if dialect == "anthropic":
    where = {"model": "anthropic/script", "api_base": url, "max_tokens": 400}
tools = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"]}}}]
calls, deltas, requests, read = [], [], 0, 0


def weather(city, days=1):
    calls.append({"city": city, "days": days})
    return f"drizzle-{len(city)} for {days}"


def ask(messages):
    ask_for = dict(**where, api_key="none", messages=messages, tools=tools)
    if form == "whole":
        return litellm.completion(**ask_for)
    chunks = []
    for chunk in litellm.completion(**ask_for, stream=True, stream_options={"include_usage": True}):
        chunks.append(chunk)
        if chunk.choices and chunk.choices[0].delta.content:
            deltas.append(chunk.choices[0].delta.content)
    return litellm.stream_chunk_builder(chunks, messages=messages)


messages = [{"role": "user", "content": task}]
for requests in range(1, 6):
    answer = ask(messages)
    message = answer.choices[0].message
    read += answer.usage.prompt_tokens
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    assert answer.choices[0].finish_reason == "tool_calls"
    for call in message.tool_calls:
        assert call.function.name == "weather"
        result = weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(json.dumps({"calls": calls, "answer": message.content, "streamed": "".join(deltas), "requests": requests,
                  "input": read}))
