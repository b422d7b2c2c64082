"""What a task of `antiphon eval` is: its data, how a model is asked, and how the answers are scored.

Scores are kept for each item: confidence intervals and paired tests draw from the items. What a metric needs of an item
is numbers that can be added up (errors and words, matching n-grams, a log-likelihood and its tokens), so that a metric
of the whole is not a mean of metrics of items where it should not be.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.items import Line, lines_of, read_lines, sample_text
from antiphon.evaluation.metrics.statistics import Rows, mean
from antiphon.evaluation.subject import Subject

Work = TypeVar("Work")
#: What an item contributes to a metric: a number or several.
Value = float | Sequence[float]


def ratio(rows: Rows) -> float:
    """The sum of the first numbers divided by that of the second: errors and words, for example."""
    numerator, denominator = rows.sum(axis=0)
    return float(numerator / denominator) if denominator else math.nan


@dataclass(frozen=True)
class Metric:
    """One figure of a task, from what its items contribute.

    `parts` are the names of the values of an item that it needs, which become the columns of `rows`; `statistic` takes
    the rows of any selection of items, also one that has an item several times.
    """

    name: str
    parts: tuple[str, ...]
    statistic: Callable[[Rows], float] = mean
    higher_is_better: bool = True
    #: "%" is shown times 100.
    unit: str = ""
    #: A size of the data, such as the number of tokens: it has no interval and is not compared.
    is_count: bool = False

    def rows(self, items: Sequence[ItemResult]) -> Rows:
        """A row for each item."""
        return np.array([[x for part in self.parts for x in item.numbers(part)] for item in items], dtype=np.float64)


@dataclass(frozen=True)
class ItemResult:
    """What came of one item: its numbers by name, and the model's output as text where there is one."""

    id: str
    values: dict[str, Value]
    output: str | None = None

    def numbers(self, part: str) -> Sequence[float]:
        value = self.values[part]
        return (value,) if isinstance(value, int | float) else value


@dataclass(frozen=True)
class TaskOptions:
    """Options of tasks; each uses its own. `None` is the task's default."""

    context: int | None = None
    stride: int | None = None
    max_tokens: int | None = None
    #: Send prompts as they are, without the model's chat template.
    raw: bool = False
    language: str | None = None
    #: A second model, which transcribes what a voice has said.
    judge: str | None = None
    #: The voice of a speech model.
    voice: str | None = None
    #: Download nothing, not even a second model.
    offline: bool = False

    def as_json(self) -> dict[str, Any]:
        """Those that were given and change what is measured."""
        return {name: value for name, value in asdict(self).items() if value and name != "offline"}


class EvaluationTask(ABC, Generic[Work]):
    """A task. `Work` is what one item is once it is read; for perplexity it is a window of tokens.

    `read` is called before a model is loaded, so that errors in the data cost no time; `prepare` once there is one.
    """

    name: ClassVar[str]
    #: One line for help and documentation.
    summary: ClassVar[str]
    #: What a model must be for: "generate", "embed", "transcribe" or "synthesize".
    model_task: ClassVar[str] = "generate"
    metrics: ClassVar[tuple[Metric, ...]]
    #: A file in `data/` that is used without `--data`; None if data must be given.
    sample: ClassVar[str | None] = None
    #: The fields of a line of data, in words, for errors and documentation.
    fields: ClassVar[str] = ""

    def __init__(self, options: TaskOptions | None = None) -> None:
        self.options = options or TaskOptions()

    def read(self, data: Path | None) -> list[Work]:
        """The items of a JSON-lines file or of the bundled sample."""
        if data is not None:
            lines = read_lines(data)
        elif self.sample is not None:
            lines = lines_of(sample_text(self.sample), self.sample)
        else:
            raise InvalidRequestError(
                f"task {self.name} has no data of its own; give --data FILE, JSON lines with {self.fields}"
            )
        return [self.item(line) for line in lines]

    def item(self, line: Line) -> Work:
        """One item of a JSON-lines file. Tasks with other data override `read`."""
        raise NotImplementedError

    def prepare(self, subject: Subject, items: list[Any]) -> list[Work]:
        """The units of work, which are scored one by one and which `--limit` counts: the items unless overridden."""
        return items

    @abstractmethod
    def evaluate(self, subject: Subject, work: Sequence[Work]) -> Iterator[ItemResult]:
        """Results in the order of the work, each as soon as it is there; closing the iterator cancels the rest."""
