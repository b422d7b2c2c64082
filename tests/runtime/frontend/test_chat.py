"""Whole answers to conversations, answers in the form of a class, and tokens of texts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tokenizers import Tokenizer

from antiphon import AsyncEngine, Engine, GrammarSpec, InvalidRequestError, SamplingParams
from antiphon.errors import ModelNotFoundError, TokenizerError
from antiphon.runtime.loading.loading import LoadedModel
from support.models.tiny_model import write_folder

MESSAGES = [{"role": "user", "content": "hello"}]
PARAMS = SamplingParams(max_tokens=8, ignore_eos=True)
SAMPLED = SamplingParams(max_tokens=8, ignore_eos=True, temperature=1.0, seed=4)
TEXTS = ["hello there", "", " two  spaces ", "naïve 北京 🎶", "line\nline", "<s> hello</s>"]


class Address(BaseModel):
    model_config = ConfigDict(extra="forbid")

    city: Literal["Bonn", "Oslo"]


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    age: Literal[4, 5]
    home: Address
    tags: list[bool] = Field(max_length=2)


@pytest.fixture(scope="module")
def engine(tiny_loaded: LoadedModel) -> Iterator[Engine]:
    with Engine(tiny_loaded, kv_bytes=8 << 20) as engine:
        yield engine


def test_a_chat_is_the_answer_that_a_stream_gives(engine: Engine) -> None:
    answer = engine.chat(MESSAGES, PARAMS)
    assert answer.token_ids == engine.stream(MESSAGES, PARAMS).wait().token_ids and len(answer.token_ids) == 8
    (raw,) = engine.generate("hello", PARAMS)
    assert answer.prompt_tokens > raw.prompt_tokens, "only a chat goes through the template"


def test_several_answers_have_seeds_of_their_own(engine: Engine) -> None:
    answers = engine.chat(MESSAGES, SAMPLED, n=3)
    assert [answer.text for answer in answers] == [one.text for one in engine.generate([MESSAGES], SAMPLED, n=3)]
    assert answers[0].text == engine.chat(MESSAGES, SAMPLED).text
    assert [len(engine.chat(MESSAGES, PARAMS, n=1))] == [1]


def test_parts_of_a_text_are_joined(engine: Engine) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    assert engine.chat(parts, PARAMS).prompt_tokens == engine.chat(MESSAGES, PARAMS).prompt_tokens


def test_a_model_without_a_chat_template_says_so(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "base", chat_template=None)
    with (
        Engine(folder, kv_bytes=8 << 20) as base,
        pytest.raises(InvalidRequestError, match="'base' has no chat template; give it plain text"),
    ):
        base.chat(MESSAGES)


def test_the_asynchronous_engine_answers_alike(engine: Engine, tiny_loaded: LoadedModel) -> None:
    async def ask() -> None:
        async with AsyncEngine(tiny_loaded, kv_bytes=8 << 20) as other:
            assert (await other.chat(MESSAGES, PARAMS)).text == engine.chat(MESSAGES, PARAMS).text
            answers = await other.chat(MESSAGES, SAMPLED, n=2)
            assert [answer.text for answer in answers] == [one.text for one in engine.chat(MESSAGES, SAMPLED, n=2)]
            assert await other.tokenize(TEXTS[0]) == engine.tokenize(TEXTS[0])
            assert await other.detokenize(engine.tokenize(TEXTS[0])) == TEXTS[0]

    asyncio.run(ask())


def test_a_class_is_the_form_of_an_answer(engine: Engine) -> None:
    params = SamplingParams(max_tokens=200, temperature=1.0, seed=1)
    answer = engine.chat(MESSAGES, params, grammar=Person)
    assert Person.model_validate_json(answer.text).age in (4, 5)
    same = GrammarSpec(json_schema=Person)
    assert same == GrammarSpec(json_schema=Person.model_json_schema())
    assert engine.generate([MESSAGES], params, grammar=same)[0].text == answer.text
    assert json.loads(same.schema_text) == Person.model_json_schema()


def test_a_class_without_a_schema_is_rejected() -> None:
    with pytest.raises(InvalidRequestError, match="json_schema is the class int; a class must be pydantic's"):
        GrammarSpec(json_schema=int)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_tokens_are_those_of_the_tokenizers_package(
    engine: Engine, tiny_llama: Path, text: str, add_special_tokens: bool
) -> None:
    reference = Tokenizer.from_file(str(tiny_llama / "tokenizer.json"))
    tokens = engine.tokenize(text, add_special_tokens=add_special_tokens)
    assert tokens == reference.encode(text, add_special_tokens=add_special_tokens).ids
    assert engine.detokenize(tokens, skip_special_tokens=True) == reference.decode(tokens, skip_special_tokens=True)


def test_control_tokens_can_be_plain_text(engine: Engine, tiny_loaded: LoadedModel) -> None:
    control = min(tiny_loaded.tokenizer.special_ids)
    spelling = engine.detokenize([control])
    assert engine.tokenize(spelling, add_special_tokens=False) == [control]
    plain = engine.tokenize(spelling, add_special_tokens=False, parse_special=False)
    assert len(plain) > 1 and engine.detokenize(plain) == spelling
    with pytest.raises(TokenizerError, match="token id 100000 is outside the vocabulary"):
        engine.detokenize([100_000])


def test_tokenizing_names_the_models_that_fit(engine: Engine, tiny_loaded: LoadedModel, tmp_path: Path) -> None:
    with Engine(tiny_loaded, write_folder(tmp_path / "other"), kv_bytes=16 << 20) as two:
        with pytest.raises(ModelNotFoundError, match=r"2 loaded models fit; name one of: .*other"):
            two.tokenize("hello")
        assert two.tokenize("hello", model=tiny_loaded.name) == engine.tokenize("hello")
