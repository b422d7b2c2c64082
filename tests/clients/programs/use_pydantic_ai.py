"""pydantic-ai: agents over chat completions and over responses, with tools and a typed result."""

from __future__ import annotations

import asyncio
from typing import Literal

from common import BASE_URL, CHAT, KEY, QUESTION
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Weather(BaseModel):
    sky: Literal["blue", "grey"]


provider = OpenAIProvider(base_url=BASE_URL, api_key=KEY)
settings = {"max_tokens": 60, "temperature": 0.0}


async def main() -> None:
    for model in (OpenAIChatModel(CHAT, provider=provider), OpenAIResponsesModel(CHAT, provider=provider)):
        plain = await Agent(model, model_settings=settings).run(QUESTION)
        assert plain.output and plain.usage.output_tokens > 0, plain
        for kind in (Weather, NativeOutput(Weather)):  # by a tool call, and by a response format
            typed = await Agent(model, output_type=kind, model_settings=settings).run(QUESTION)
            assert isinstance(typed.output, Weather), typed
        async with Agent(model, model_settings=settings).run_stream(QUESTION) as stream:
            assert await stream.get_output()


asyncio.run(main())
