"""openai-agents: an agent that must call its tool, over chat completions and over responses."""

from __future__ import annotations

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from common import BASE_URL, CHAT, KEY, QUESTION
from openai import AsyncOpenAI

set_tracing_disabled(True)
#: A question that the small model answers in one sentence: an answer that is cut off is an error of the package.
PLAIN_QUESTION = "What is the capital of France?"
asked: list[str] = []


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    asked.append(city)
    return "18 degrees"


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        model = kind(model=CHAT, openai_client=client)
        plain = Agent(
            name="plain",
            instructions="Be brief.",
            model=model,
            model_settings=ModelSettings(max_tokens=600, temperature=0),
        )
        assert (await Runner.run(plain, PLAIN_QUESTION)).final_output
        settings = ModelSettings(max_tokens=600, temperature=0, tool_choice="required")
        agent = Agent(name="tools", model=model, tools=[get_weather], model_settings=settings)
        before = len(asked)
        assert (await Runner.run(agent, QUESTION, max_turns=4)).final_output is not None
        assert len(asked) > before, "the tool was not called"
        streamed = Runner.run_streamed(plain, PLAIN_QUESTION)
        events = [event async for event in streamed.stream_events()]
        assert events and streamed.final_output


asyncio.run(main())
