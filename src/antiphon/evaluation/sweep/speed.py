"""Speed of an engine with one setting: prompts from the text, answers of fixed length."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.bench.load.objectives import Objectives
from antiphon.engine.sampling_params import SamplingParams
from antiphon.evaluation.subject import Subject
from antiphon.runtime.text.output import Completion

PROMPT_TOKENS, ANSWER_TOKENS = 256, 64
#: Number of single requests, whose median counts, and of requests at once.
SINGLE, TOGETHER = 3, 8


@dataclass(frozen=True)
class Speed:
    """Times of single requests in milliseconds; tokens per second of several requests at once, and their goodput."""

    time_to_first_token_ms: float
    time_per_token_ms: float
    tokens_per_second: float
    goodput: float | None = None


def measure_speed(subject: Subject, tokens: Sequence[int], objectives: Objectives | None = None) -> Speed:
    """Measure greedy answers to chunks of the text, each used once so that the prefix cache does not help."""
    prompts = pieces(tokens, SINGLE + TOGETHER + 1, min(PROMPT_TOKENS, subject.loaded.model.max_positions // 2))
    answer_tokens = min(ANSWER_TOKENS, subject.loaded.model.max_positions // 4)
    params = SamplingParams(max_tokens=answer_tokens, ignore_eos=True)
    generate = subject.engine.generate
    if subject.loaded.device.is_cpu:
        generate([prompts[0]], SamplingParams(max_tokens=2, ignore_eos=True), model=subject.name)
    else:  # captures the graphs of the sizes that follow; drafts have any size, so the same prompts run
        for others in (*([prompt] for prompt in prompts[1 : SINGLE + 1]), prompts[SINGLE + 1 :]):
            generate(others, params, model=subject.name, cache_salt="warm-up")
    single = [generate([prompt], params, model=subject.name)[0].timings for prompt in prompts[1 : SINGLE + 1]]
    started = time.perf_counter()
    answers = generate(prompts[SINGLE + 1 :], params, model=subject.name)
    seconds = time.perf_counter() - started
    good = None if objectives is None else sum(_is_good(answer, objectives) for answer in answers) / seconds
    return Speed(
        1e3 * statistics.median(timings.time_to_first_token for timings in single),
        1e3 * statistics.median(timings.time_per_output_token for timings in single),
        sum(len(answer.token_ids) for answer in answers) / seconds,
        good,
    )


def _is_good(answer: Completion, objectives: Objectives) -> bool:
    timings = answer.timings
    seconds = {
        "ttft": timings.time_to_first_token,
        "tpot": timings.time_per_output_token,
        "e2e": timings.total,
    }
    return objectives.are_met({name: 1e3 * value for name, value in seconds.items()})


def pieces(tokens: Sequence[int], count: int, length: int) -> list[list[int]]:
    """Return `count` chunks of the text, from positions spread over it; a short text is repeated.

    No two begin with the same tokens unless the text repeats itself.
    """
    text = list(tokens)
    while len(text) < length + count:
        text += tokens
    step = max(1, (len(text) - length) // count)
    return [text[index * step : index * step + length] for index in range(count)]
