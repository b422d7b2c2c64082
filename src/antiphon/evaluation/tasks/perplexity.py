"""`perplexity`: how well a model predicts a text, in windows that slide over it.

As in transformers' documentation of fixed-length models, windows of `context` tokens begin every `stride` tokens, and
each scores only the tokens that no earlier window has scored. A smaller stride gives every token more context.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.items import read_text, sample_text
from antiphon.evaluation.metrics.statistics import Rows
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric, ratio

DEFAULT_CONTEXT = 1024


@dataclass(frozen=True)
class ScoredWindow:
    """Window of tokens, of which the last `num_scored` are scored. A window's first token has no context."""

    start: int
    tokens: list[int]
    num_scored: int


def windows(tokens: Sequence[int], context: int, stride: int) -> list[ScoredWindow]:
    """Return windows that score every token but the first once, in the first window that reaches it.

    If the stride is the context, windows do not overlap, and the first token of each is not scored.
    """
    found, done = [], 0
    for start in range(0, len(tokens), stride):
        end = min(start + context, len(tokens))
        num_scored = end - max(done, start + 1)
        if num_scored > 0:
            found.append(ScoredWindow(start, list(tokens[start:end]), num_scored))
        done = end
        if end == len(tokens):
            break
    return found


def per_token(rows: Rows) -> float:
    """Return the perplexity from columns of negative log-likelihoods and token counts."""
    mean = ratio(rows)
    return math.exp(mean) if mean < 700 else math.inf


def bits(rows: Rows) -> float:
    """Return bits per byte from columns of negative log-likelihoods and byte counts."""
    return ratio(rows) / math.log(2)


def total(rows: Rows) -> float:
    return float(rows.sum())


class Perplexity(EvaluationTask[ScoredWindow]):
    """Perplexity and bits per byte of a text. Only bits per byte compare between tokenizers."""

    name = "perplexity"
    summary = "perplexity and bits per byte of a text"
    metrics = (
        Metric("perplexity", ("nll", "tokens"), per_token, higher_is_better=False),
        Metric("bits per byte", ("nll", "bytes"), bits, higher_is_better=False),
        Metric("tokens", ("tokens",), total, is_count=True),
    )
    sample = "perplexity.txt"
    fields = "plain text (not JSON lines)"

    def read(self, data: Path | None) -> list[str]:  # type: ignore[override]
        text = sample_text(self.sample) if data is None else read_text(data)
        if not text.strip():
            raise InvalidRequestError(f"{data} has no text")
        return [text]

    def prepare(self, subject: Subject, items: list[str]) -> list[ScoredWindow]:
        context, stride = self.sizes(subject)
        tokens = subject.loaded.tokenizer.encode(items[0], parse_special=False)
        if len(tokens) < 2:
            raise InvalidRequestError(f"the text has {len(tokens)} token; perplexity needs 2 or more")
        return windows(tokens, context, stride)

    def sizes(self, subject: Subject) -> tuple[int, int]:
        """Return context and stride in tokens. Defaults: DEFAULT_CONTEXT or the model limit, and half."""
        longest = subject.loaded.model.max_positions - 1
        context = self.options.context or min(DEFAULT_CONTEXT, longest)
        if context < 2:
            raise InvalidRequestError(f"the context is {context}; it must be 2 tokens or more")
        if context > longest:
            raise InvalidRequestError(
                f"the context is {context:,} tokens; model {subject.name!r} takes {longest + 1:,}, one of which is for "
                f"the answer: give at most {longest:,}"
            )
        stride = self.options.stride or max(1, context // 2)
        if not 1 <= stride <= context:
            raise InvalidRequestError(f"the stride is {stride:,}; it must be 1 to {context:,}, the context")
        return context, stride

    def evaluate(self, subject: Subject, work: Sequence[ScoredWindow]) -> Iterator[ItemResult]:
        tokenizer = subject.loaded.tokenizer
        params = SamplingParams(max_tokens=1, prompt_logprobs=True, ignore_eos=True)
        answers = subject.generate((window.tokens for window in work), params)
        for window, answer in zip(work, answers, strict=True):
            assert answer.prompt_logprobs is not None
            scored = window.tokens[-window.num_scored :]
            size = sum(len(tokenizer.token_bytes(token)) for token in scored)
            nll = -math.fsum(answer.prompt_logprobs[-window.num_scored :])
            yield ItemResult(str(window.start), {"nll": nll, "tokens": len(scored), "bytes": size})
