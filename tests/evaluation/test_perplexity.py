"""Perplexity equals what transformers computes on the same tokens, window by window."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.results import figures
from antiphon.evaluation.run import TaskRun, run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import TaskOptions
from antiphon.evaluation.tasks.perplexity import Perplexity, windows
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.weight_forms import WeightOptions
from support.models.tiny_model import write_folder

EXACT = EngineSetting({"kv": "fp32", "repack": "off"})


@pytest.fixture(scope="module")
def subject(tiny_llama: Path) -> Iterator[Subject]:
    loaded = load_model(str(tiny_llama), options=WeightOptions(repack=False), device="cpu")
    with opened(loaded, EXACT, kv_bytes=16 << 20) as subject:
        yield subject


def transformers_nll(model: Any, tokens: list[int], context: int, stride: int) -> tuple[float, int]:
    """The loop of transformers' documentation; tokens are counted as the shift inside the model leaves them."""
    ids = torch.tensor([tokens])
    total, count, previous = 0.0, 0, 0
    for begin in range(0, len(tokens), stride):
        end = min(begin + context, len(tokens))
        inputs = ids[:, begin:end]
        targets = inputs.clone()
        targets[:, : -(end - previous)] = -100
        scored = int((targets[:, 1:] != -100).sum())
        if scored:
            with torch.no_grad():
                total += float(model(inputs, labels=targets).loss) * scored
        count += scored
        previous = end
        if end == len(tokens):
            break
    return total, count


def values(run: TaskRun) -> dict[str, float]:
    return {figure.metric.name: figure.value for figure in figures(Perplexity.metrics, run.items)}


@pytest.mark.parametrize(("context", "stride"), [(64, 32), (64, 64), (50, 7), (200, 200), (3000, 1500)])
def test_it_is_that_of_transformers(subject: Subject, tiny_llama: Path, context: int, stride: int) -> None:
    from transformers import AutoModelForCausalLM

    text = "hello there, the bells ring twice: ünïcode — " * 12
    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32).eval()
    tokens = subject.loaded.tokenizer.encode(text)
    total, count = transformers_nll(model, tokens, context, stride)
    task = Perplexity(TaskOptions(context=context, stride=stride))
    found = values(run_task(task, subject, [text]))
    assert found["tokens"] == count
    assert found["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-3)
    if stride < context:  # every token but the first is scored
        size = len(text.encode()) - len(subject.loaded.tokenizer.token_bytes(tokens[0]))
        assert found["bits per byte"] == pytest.approx(total / math.log(2) / size, rel=1e-3)


def test_every_token_but_the_first_is_scored_once() -> None:
    tokens = list(range(101))
    for context, stride in [(10, 3), (10, 9), (200, 5), (2, 1)]:
        scored = [token for window in windows(tokens, context, stride) for token in window.tokens[-window.num_scored :]]
        assert scored == tokens[1:]
        assert all(len(window.tokens) <= context for window in windows(tokens, context, stride))


def test_control_tokens_in_a_text_are_text(subject: Subject) -> None:
    (window,) = Perplexity().prepare(subject, ["a<|im_end|>b"])
    assert not subject.loaded.tokenizer.special_ids & set(window.tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TaskOptions(context=4096), "takes 4,096, one of which is for the answer: give at most 4,095"),
        (TaskOptions(context=1), "it must be 2 tokens or more"),
        (TaskOptions(context=8, stride=9), "the stride is 9; it must be 1 to 8"),
    ],
)
def test_sizes_that_cannot_be(subject: Subject, options: TaskOptions, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Perplexity(options).prepare(subject, ["hello there"])


def test_texts_that_are_too_short(subject: Subject, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    with pytest.raises(InvalidRequestError, match=r"empty\.txt has no text"):
        Perplexity().read(empty)
    with pytest.raises(InvalidRequestError, match="the text has 1 token"):
        Perplexity().prepare(subject, ["h"])


def test_the_sample_is_read() -> None:
    (text,) = Perplexity().read(None)
    assert 4_000 < len(text) < 10_000


def test_a_short_context_is_the_default_of_a_short_model(tmp_path: Path) -> None:
    from support.models.tiny_model import CONFIG

    folder = write_folder(tmp_path / "short", config={**CONFIG, "max_position_embeddings": 100})
    loaded = load_model(str(folder), device="cpu")
    with opened(loaded, EXACT, kv_bytes=16 << 20) as subject:
        assert Perplexity().sizes(subject) == (99, 49)
