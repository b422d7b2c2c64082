"""Anthropic's and Ollama's clients, and reranking, with real models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server

pytestmark = [pytest.mark.weights]

CHAT, ENCODER = "smollm2-135m", "all-minilm-l6-v2"
QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0}


@pytest.fixture(scope="module")
def real(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in (CHAT, ENCODER):
        model_path(name)  # it is here from now on
    config = ServerConfig(models=tuple(ModelSpec.of(name) for name in (CHAT, ENCODER)), offline=True)
    with running_server(config, {"kv_bytes": 64 << 20}) as running:
        yield running


@pytest.fixture(scope="module")
def wanted(real: RunningServer) -> Any:
    """The answer by OpenAI's route."""
    with real.openai() as client:
        return client.chat.completions.create(model=CHAT, messages=QUESTION, max_tokens=30, temperature=0)


def test_anthropic(real: RunningServer, wanted: Any) -> None:
    text, num_tokens = wanted.choices[0].message.content, wanted.usage.prompt_tokens
    asked: dict[str, Any] = {"model": CHAT, "messages": QUESTION}
    with anthropic.Anthropic(base_url=real.url, api_key="unused", max_retries=0) as client:
        answer = client.messages.create(**asked, max_tokens=30, extra_body=GREEDY)
        with client.messages.stream(**asked, max_tokens=30, extra_body=GREEDY) as stream:
            streamed = "".join(stream.text_stream)
        counted = client.messages.count_tokens(**asked).input_tokens
    (block,) = answer.content
    assert block.type == "text" and block.text == streamed == text
    assert counted == num_tokens == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)


def test_ollama(real: RunningServer, wanted: Any) -> None:
    client = ollama.Client(host=real.url)
    options = {"temperature": 0, "num_predict": 30}
    answer = client.chat(f"{CHAT}:latest", QUESTION, options=options)
    assert answer.message.content == wanted.choices[0].message.content
    assert answer.done_reason == wanted.choices[0].finish_reason
    parts = client.generate(CHAT, QUESTION[0]["content"], options=options, stream=True)
    assert "".join(part.response or "" for part in parts) == answer.message.content
    schema = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 20}}, "required": ["capital"]}
    formed = client.chat(CHAT, QUESTION, format=schema, options={"temperature": 0, "num_predict": 60})
    assert isinstance(json.loads(formed.message.content or "")["capital"], str)
    listed = {model.model: model for model in client.list().models}
    assert listed[CHAT].details is not None and listed[CHAT].details.parameter_size == "134.5M"
    assert len(client.embed(ENCODER, "hello").embeddings[0]) == 384
    client.close()


def test_rerank(real: RunningServer) -> None:
    documents = ["Bread is baked in an oven.", "Paris is the capital of France.", "The choir sang all night."]
    body = {"model": ENCODER, "query": "What is the capital of France?", "documents": documents}
    results = httpx.post(real.url + "/v1/rerank", json=body, timeout=60).json()["results"]
    assert results[0]["index"] == 1 and results[0]["relevance_score"] > 0.5 > results[1]["relevance_score"]
