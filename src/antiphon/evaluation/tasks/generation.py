"""Tasks whose answers are generated and compared with references: answers, translations, summaries.

Decoding is greedy, so that a run can be repeated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

from antiphon.engine.sampling_params import SamplingParams
from antiphon.evaluation.items import Line
from antiphon.evaluation.metrics import text as text_metrics
from antiphon.evaluation.metrics.statistics import Rows, Statistic
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric, Value

ROUGE_KINDS = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class Prompted:
    """Prompt with reference answers. Errors name the `source`."""

    id: str
    prompt: str
    references: list[str]
    source: str = ""


class Generation(EvaluationTask[Prompted]):
    """Task that answers each prompt and compares the answer with its references."""

    max_tokens: ClassVar[int]
    fields = "prompt and reference (a text, or a list of texts of which the best counts)"

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.score("a", ["a"])  # reports a missing package before anything is loaded

    def item(self, line: Line) -> Prompted:
        return Prompted(line.id, self.prompt(line), line.texts("reference", "references", "answers"), line.location)

    def prompt(self, line: Line) -> str:
        return line.text("prompt")

    def evaluate(self, subject: Subject, work: Sequence[Prompted]) -> Iterator[ItemResult]:
        params = SamplingParams(max_tokens=self.options.max_tokens or self.max_tokens)
        prompts = (subject.chat(item.prompt, self.options.raw) for item in work)
        answers = subject.generate(prompts, params, (item.source for item in work))
        for item, answer in zip(work, answers, strict=True):
            output = answer.text.strip()
            yield ItemResult(item.id, self.score(output, item.references), output)

    @abstractmethod
    def score(self, output: str, references: list[str]) -> dict[str, Value]:
        """Return an answer's contribution to the metrics."""


class Accuracy(Generation):
    """Short answers, compared as in SQuAD: case, punctuation and articles do not count."""

    name = "accuracy"
    summary = "exact match and F1 of short answers"
    metrics = (Metric("exact match", ("exact_match",), unit="%"), Metric("F1", ("f1",), unit="%"))
    max_tokens = 32
    sample = "accuracy.jsonl"
    fields = "prompt (or question) and reference (or references, answers: a text, or several of which the best counts)"

    def prompt(self, line: Line) -> str:
        return line.text("prompt", "question")

    def score(self, output: str, references: list[str]) -> dict[str, Value]:
        return {
            "exact_match": text_metrics.exact_match([output], [references]).value,
            "f1": text_metrics.f1([output], [references]).value,
        }


@cache
def _statistic_of(name: str) -> Statistic:
    """Return the function that computes a text metric of the corpus from its items' rows."""
    return getattr(text_metrics, name)(["a"], [["a"]]).statistic


def _corpus_value(name: str, rows: Rows) -> float:
    return _statistic_of(name)(rows)


class Translate(Generation):
    """Translations, compared by n-grams of words and of characters over the whole corpus."""

    name = "translate"
    summary = "BLEU and chrF of translations"
    metrics = (
        Metric("BLEU", ("bleu",), partial(_corpus_value, "bleu")),
        Metric("chrF", ("chrf",), partial(_corpus_value, "chrf")),
    )
    max_tokens = 256

    def score(self, output: str, references: list[str]) -> dict[str, Value]:
        return {
            "bleu": text_metrics.bleu([output], [references]).rows[0].tolist(),
            "chrf": text_metrics.chrf([output], [references]).rows[0].tolist(),
        }


class Summarise(Generation):
    """Summaries, compared by their overlap with a reference."""

    name = "summarise"
    summary = "ROUGE of summaries"
    metrics = tuple(Metric(kind.replace("rouge", "ROUGE-"), (kind,), unit="%") for kind in ROUGE_KINDS)
    max_tokens = 256

    def score(self, output: str, references: list[str]) -> dict[str, Value]:
        scores = text_metrics.rouge([output], [references], ROUGE_KINDS)
        return {kind: scores[kind].value for kind in ROUGE_KINDS}
