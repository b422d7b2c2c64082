"""README's first prompt, on the model that README names, with default settings."""

from __future__ import annotations

import pytest

from antiphon import Engine

MODEL, PROMPT = "qwen2.5-coder-0.5b", "Write a haiku about choirs."

pytestmark = pytest.mark.weights


def is_a_poem(text: str) -> bool:
    """Return whether there are several lines, no line twice. Greedy, the answer was one line 62 times."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return 2 <= len(lines) == len(set(lines))


def test_answers_with_several_seeds_are_poems() -> None:
    """Words depend on how a processor rounds, so two of eight answers may fail to be poems."""
    with Engine(MODEL, kv_bytes=256 << 20) as engine:
        seeds = [engine.sampling_defaults(seed=seed) for seed in range(8)]
        answers = engine.generate([[{"role": "user", "content": PROMPT}]] * len(seeds), seeds)
        assert sum(is_a_poem(answer.text) for answer in answers) >= 6, [answer.text for answer in answers]
