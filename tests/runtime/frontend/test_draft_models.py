"""An engine with a draft model: the same answers, and clear words where the model cannot draft."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.speculation.speculator import Speculator
from antiphon.errors import InvalidRequestError, ModelNotFoundError, UnsupportedError
from antiphon.runtime.frontend.engine import Engine
from support.models.tiny_model import write_folder
from support.server.http_server import write_random_bert

PROMPTS = ["hello world", "abc abd", "hello"]


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny-chat")


@pytest.fixture(scope="module")
def draft_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny-draft")


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with one token more."""
    folder = write_folder(tmp_path_factory.mktemp("models") / "tiny-other")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["<|other|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft model drafts three tokens whenever it can, and all are verified."""

    def passes(self: Speculator, requests: list, *_: int) -> tuple[list, int]:  # type: ignore[type-arg]
        able = [request for request in requests if request.limit - request.num_tokens > 3]
        for request in able:
            self._search(request)
        return able, 3

    monkeypatch.setattr(Speculator, "passes", passes)
    monkeypatch.setattr(Speculator, "_lengths", lambda _, drafts, *rest: [len(draft.tokens) for draft in drafts])


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_answers_are_the_same(chat_folder: Path, draft_folder: Path, temperature: float, always: None) -> None:
    params = SamplingParams(temperature=temperature, seed=5, max_tokens=24, ignore_eos=True)
    with Engine(str(chat_folder), kv_bytes=8 << 20) as engine:
        plain = [answer.token_ids for answer in engine.generate(PROMPTS, params)]
    with Engine(str(chat_folder), kv_bytes=8 << 20, speculate=str(draft_folder)) as engine:
        answers = engine.generate(PROMPTS, params)
        (scheduler,) = (slot.scheduler for slot in engine._core.slots.values())
        assert isinstance(scheduler, Scheduler) and scheduler.draft_model is not None
        scheduler.check_integrity()
        assert [answer.token_ids for answer in answers] == plain
        assert sum(answer.drafted_tokens for answer in answers) > 0
        for mode in ("off", "ngram"):
            asked = SamplingParams(max_tokens=8, ignore_eos=True, speculate=mode)
            assert (
                engine.generate(PROMPTS[:1], asked)[0].token_ids
                == engine.generate(PROMPTS[:1], SamplingParams(max_tokens=8, ignore_eos=True, speculate="draft"))[
                    0
                ].token_ids
            )


def test_a_model_of_another_vocabulary_does_not_draft(
    chat_folder: Path, other_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "antiphon.models"),
        Engine(str(chat_folder), kv_bytes=8 << 20, speculate=str(other_folder)) as engine,
    ):
        assert "does not draft for tiny-chat" in caplog.text
        with pytest.raises(InvalidRequestError, match="has no draft model"):
            engine.generate("hello", SamplingParams(speculate="draft"))
        assert engine.generate("hello", SamplingParams(max_tokens=3, ignore_eos=True))[0].token_ids


def test_what_cannot_draft_is_refused(chat_folder: Path, tmp_path: Path) -> None:
    encoder_folder = write_random_bert(tmp_path)
    with pytest.raises(UnsupportedError, match="a draft model generates text"):
        Engine(str(chat_folder), kv_bytes=8 << 20, speculate=str(encoder_folder))
    with pytest.raises(ModelNotFoundError):
        Engine(str(chat_folder), kv_bytes=8 << 20, speculate="ngrm", offline=True)


def test_a_request_asks_for_a_draft_model_that_is_not_there(chat_folder: Path) -> None:
    with (
        Engine(str(chat_folder), kv_bytes=8 << 20, speculate="ngram") as engine,
        pytest.raises(InvalidRequestError, match="has no draft model"),
    ):
        engine.generate("hello", SamplingParams(speculate="draft"))
