"""Real small models call tools: the default chat model, and one whose template knows no tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import running_server

pytestmark = pytest.mark.weights

QWEN, SMOLLM = "qwen2.5-coder-0.5b", "smollm2-135m"


def tool(name: str, description: str, **kinds: str) -> Any:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    parameters = {"type": "object", "properties": properties, "required": list(kinds)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = tool("get_weather", "Get the current weather in a city.", city="string")
ADD = tool("add", "Add two numbers.", a="number", b="number")
TIMER = tool("set_timer", "Start a timer.", minutes="number")
QUESTIONS = [
    ("What is the weather in Paris?", [WEATHER, TIMER], ("get_weather", {"city": "Paris"})),
    ("Use a tool to add 17 and 25.", [ADD, WEATHER], ("add", {"a": 17, "b": 25})),
    ("Set a timer for 15 minutes.", [TIMER, WEATHER], ("set_timer", {"minutes": 15})),
]


@pytest.fixture(scope="module")
def real_client() -> Iterator[openai.OpenAI]:
    config = ServerConfig(models=(ModelSpec.of(QWEN), ModelSpec.of(SMOLLM)), offline=True)
    with running_server(config, {"kv_bytes": 128 << 20}) as running, running.openai() as client:
        yield client.with_options(timeout=300)


@pytest.mark.parametrize(("model", "questions"), [(QWEN, QUESTIONS[:2]), (SMOLLM, QUESTIONS[2:])])
def test_questions_become_calls(real_client: openai.OpenAI, model: str, questions: list[Any]) -> None:
    """Streamed, without a word of content."""
    for text, tools, wanted in questions:
        name, arguments, content, reason = "", "", "", None
        for chunk in real_client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], tools=tools, temperature=0, max_tokens=80,
            stream=True,
        ):  # fmt: skip
            choice = chunk.choices[0]
            content, reason = content + (choice.delta.content or ""), choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                assert call.index == 0 and call.function is not None
                name, arguments = name + (call.function.name or ""), arguments + (call.function.arguments or "")
        assert (name, json.loads(arguments), content, reason) == (*wanted, "", "tool_calls"), text
