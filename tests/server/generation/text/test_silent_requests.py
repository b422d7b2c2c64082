"""A request that does not say how to sample gets what the model's own files ask for; one that does overrides them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gguf
import openai
import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.models.tiny_model import write_folder, write_gguf
from support.server.pool import ServerPool

MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelSpec, ...]:
    """A folder that asks for greedy answers, a GGUF with settings, and a model without any."""
    home = tmp_path_factory.mktemp("settled")
    greedy = write_folder(home / "greedy")
    (greedy / "generation_config.json").write_text(json.dumps({"do_sample": False, "temperature": 0.6}))

    def describe(writer: gguf.GGUFWriter) -> None:
        writer.add_sampling_temp(1.5)
        writer.add_sampling_top_k(3)

    paths = [greedy, write_gguf(home / "warm.gguf", describe=describe), write_folder(home / "silent")]
    return tuple(ModelSpec.of(str(path)) for path in paths)


@pytest.fixture
def settled(servers: ServerPool, models: tuple[ModelSpec, ...]) -> Iterator[openai.OpenAI]:
    config = ServerConfig(models=models, offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running, running.openai() as client:
        yield client


def complete(client: openai.OpenAI, model: str, **given: Any) -> str:
    return client.completions.create(model=model, prompt="hello", max_tokens=24, **given).choices[0].text


def chat(client: openai.OpenAI, model: str, **given: Any) -> str | None:
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=24, **given)
    return answer.choices[0].message.content


def test_a_folder_that_asks_for_greedy_answers(settled: openai.OpenAI) -> None:
    for ask in (complete, chat):
        silent = {ask(settled, "greedy") for _ in range(3)}
        assert silent == {ask(settled, "greedy", temperature=0)}
        assert ask(settled, "greedy", temperature=3, seed=1) not in silent
    response = settled.responses.create(model="greedy", input="hello", max_output_tokens=24)
    assert (response.output_text, response.temperature, response.top_p) == (chat(settled, "greedy"), 0, 1)


@pytest.mark.parametrize(
    ("model", "own"), [("warm", {"temperature": 1.5, "top_k": 3}), ("silent", {"temperature": 0.7, "top_p": 0.95})]
)
def test_what_is_not_said_is_the_models_own(settled: openai.OpenAI, model: str, own: dict[str, Any]) -> None:
    for seed in range(3):
        given = {name: value for name, value in own.items() if name != "top_k"}
        extra = {name: value for name, value in own.items() if name == "top_k"}
        silent = complete(settled, model, seed=seed)
        assert silent == complete(settled, model, seed=seed, **given, extra_body=extra)
        assert silent != complete(settled, model, seed=seed, temperature=90, extra_body={"top_k": 0, "top_p": 1})
    assert len({complete(settled, model) for _ in range(4)}) > 1  # the seed is random
    response = settled.responses.create(model=model, input="hello", max_output_tokens=4, top_p=0.5)
    assert (response.temperature, response.top_p) == (own["temperature"], 0.5)
