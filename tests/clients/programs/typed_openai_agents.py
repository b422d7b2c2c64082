"""openai-agents: an agent with a tool and a typed result, over chat completions and over responses."""

from __future__ import annotations

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from common import BASE_URL, CHAT, KEY
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)
asked: list[str] = []


class Person(BaseModel):
    name: str
    age: int


@function_tool
def age_of(person: str) -> str:
    """The age of a person."""
    asked.append(person)
    return "30"


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        model = kind(model=CHAT, openai_client=client)
        agent = Agent(name="typed", model=model, tools=[age_of], output_type=Person)
        result = await Runner.run(agent, "How old is Ann?", max_turns=4)
        assert result.final_output == Person(name="Ann", age=30), result
        streamed = Runner.run_streamed(agent, "How old is Ann?", max_turns=4)
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == Person(name="Ann", age=30), streamed
    assert asked == ["Ann"] * 4, asked


asyncio.run(main())
