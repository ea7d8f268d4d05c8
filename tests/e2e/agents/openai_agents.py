"""openai-agents on a server: one session in a dialect, streamed or not; prints what it did as JSON.
usage: openai_agents.py URL chat|responses whole|stream TASK"""

import asyncio
import json
import sys

from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool,
                    set_tracing_disabled)
from openai import AsyncOpenAI

url, dialect, form, task = sys.argv[1:]
calls, deltas = [], []


@function_tool
def weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    calls.append({"city": city, "days": days})
    return f"drizzle-{len(city)} for {days}"


async def main():
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    kind = OpenAIChatCompletionsModel if dialect == "chat" else OpenAIResponsesModel
    agent = Agent(name="a", instructions="Use tools.", tools=[weather],
                  model=kind(model="script", openai_client=client), model_settings=ModelSettings(include_usage=True))
    if form == "whole":
        result = await Runner.run(agent, task)
    else:
        result = Runner.run_streamed(agent, task)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                deltas.append(event.data.delta)
    usage = result.context_wrapper.usage
    print(json.dumps({"calls": calls, "answer": result.final_output, "streamed": "".join(deltas),
                      "requests": usage.requests, "input": usage.input_tokens}))


asyncio.run(main())
