"""pydantic-ai on a server: one session in a dialect, streamed or not; prints what it did as JSON.
usage: pydantic_ai_agent.py URL chat|responses|anthropic whole|stream TASK"""

import asyncio
import json
import sys

from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

url, dialect, form, task = sys.argv[1:]
calls, deltas = [], []


def model():
    if dialect == "anthropic":
        return AnthropicModel("script", provider=AnthropicProvider(base_url=url, api_key="none"))
    kind = OpenAIChatModel if dialect == "chat" else OpenAIResponsesModel
    return kind("script", provider=OpenAIProvider(base_url=url + "/v1", api_key="none"))


agent = Agent(model(), instructions="Use tools.", retries=0)


@agent.tool_plain
def weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    calls.append({"city": city, "days": days})
    return f"drizzle-{len(city)} for {days}"


async def watch(_, events):
    """Given to the agent, it makes the agent stream."""
    async for event in events:
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            deltas.append(event.part.content)
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            deltas.append(event.delta.content_delta)


async def main():
    result = await agent.run(task, event_stream_handler=watch if form == "stream" else None)
    usage = result.usage() if callable(result.usage) else result.usage
    print(json.dumps({"calls": calls, "answer": result.output, "streamed": "".join(deltas), "requests": usage.requests,
                      "input": usage.input_tokens}))


asyncio.run(main())
