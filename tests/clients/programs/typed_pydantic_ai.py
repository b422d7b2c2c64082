"""pydantic-ai: an agent with a tool and `NativeOutput`, over chat completions and over responses."""

from __future__ import annotations

import asyncio

from common import BASE_URL, CHAT, KEY
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

asked: list[str] = []


class Person(BaseModel):
    name: str
    age: int


def age_of(person: str) -> str:
    """The age of a person."""
    asked.append(person)
    return "30"


async def main() -> None:
    provider = OpenAIProvider(base_url=BASE_URL, api_key=KEY)
    for model in (OpenAIChatModel(CHAT, provider=provider), OpenAIResponsesModel(CHAT, provider=provider)):
        agent = Agent(model, output_type=NativeOutput(Person), tools=[age_of])
        assert (await agent.run("How old is Ann?")).output == Person(name="Ann", age=30)
        async with agent.run_stream("How old is Ann?") as stream:
            assert await stream.get_output() == Person(name="Ann", age=30)
    assert asked == ["Ann"] * 4, asked


asyncio.run(main())
