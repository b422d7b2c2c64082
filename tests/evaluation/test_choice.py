"""Log-likelihoods of choices equal transformers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.evaluation.run import run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.tasks.choice import Choice, ChoiceQuestion, scored
from antiphon.runtime.loading.loading import load_model

QUESTIONS = [
    ChoiceQuestion("1", "hello", ["there", "to the hell", "x"], 0),
    ChoiceQuestion("2", "the bells", ["ring", "hello the"], 1),
]


def transformers_sum(model: Any, context: list[int], whole: list[int]) -> float:
    with torch.no_grad():
        logprobs = model(torch.tensor([whole])).logits[0].log_softmax(-1)
    return sum(float(logprobs[index - 1, whole[index]]) for index in range(len(context), len(whole)))


def test_choices_are_scored_as_by_transformers(tiny_llama: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32).eval()
    loaded = load_model(str(tiny_llama), device="cpu")
    with opened(loaded, EngineSetting({"kv": "fp32"}), kv_bytes=16 << 20) as subject:
        run = run_task(Choice(), subject, QUESTIONS)
    encode = loaded.tokenizer.encode
    for question, item in zip(QUESTIONS, run.items, strict=True):
        expected = [
            transformers_sum(model, encode(question.text), encode(f"{question.text} {choice}"))
            for choice in question.choices
        ]
        assert item.numbers("logprobs") == pytest.approx(expected, rel=1e-4)
        assert item.values["correct"] == (expected.index(max(expected)) == question.answer)
        per_byte = [total / len(choice.encode()) for total, choice in zip(expected, question.choices, strict=True)]
        assert item.values["correct_per_byte"] == (per_byte.index(max(per_byte)) == question.answer)


def test_a_long_choice_wins_per_byte() -> None:
    question = ChoiceQuestion("1", "q", ["aaaaaaaaaa", "b"], 0)
    item = scored(question, [-10.0, -9.0])
    assert (item.values["correct"], item.values["correct_per_byte"], item.output) == (0.0, 1.0, "b")
