"""README's first prompt, on the model that README names, with the settings that nobody chose."""

from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon import Engine

MODEL, PROMPT = "qwen2.5-coder-0.5b", "Write a haiku about choirs."
COMMAND = [sys.executable, "-c", "from antiphon.cli.app import main; main()", "run", MODEL, PROMPT]

pytestmark = pytest.mark.weights


def is_a_poem(text: str) -> bool:
    """Return whether there are several lines, no line twice. Greedy, the answer was one line 62 times."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return 2 <= len(lines) == len(set(lines))


def test_as_readme_has_it() -> None:
    done = subprocess.run([*COMMAND, "--seed", "1"], capture_output=True, text=True, check=True)
    assert done.stderr.rstrip().endswith(", seed 1; temperature 0.7, top_p 0.95 (default)")
    assert done.stdout.strip()


def test_with_other_seeds() -> None:
    """Which words a seed gives depends on how a processor rounds, so an answer or two may be none."""
    with Engine(MODEL, kv_bytes=256 << 20) as engine:
        seeds = [engine.sampling_defaults(seed=seed) for seed in range(8)]
        answers = engine.generate([[{"role": "user", "content": PROMPT}]] * len(seeds), seeds)
        assert sum(is_a_poem(answer.text) for answer in answers) >= 6, [answer.text for answer in answers]
