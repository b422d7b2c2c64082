"""`EvaluationTask`: a task of `antiphon eval`, with its data, prompts and scoring.

Scores are kept per item, since confidence intervals and paired tests resample items. An item contributes numbers that
can be summed (errors and words, matching n-grams, a log-likelihood and its tokens), so that the metric of a corpus need
not be a mean over items.
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
#: Contribution of an item to a metric: one number or several.
Value = float | Sequence[float]


def ratio(rows: Rows) -> float:
    """Return the sum of the first column divided by that of the second, such as errors by words."""
    numerator, denominator = rows.sum(axis=0)
    return float(numerator / denominator) if denominator else math.nan


@dataclass(frozen=True)
class Metric:
    """Metric of a task, computed from its items' values.

    `parts` are the names of the values that become the columns of `rows`; `statistic` accepts the rows of any selection
    of items, with repetition.
    """

    name: str
    parts: tuple[str, ...]
    statistic: Callable[[Rows], float] = mean
    higher_is_better: bool = True
    #: Unit of the value; "%" is shown times 100.
    unit: str = ""
    #: Whether it is a size of the data, such as the number of tokens: it has no interval and is not compared.
    is_count: bool = False

    def rows(self, items: Sequence[ItemResult]) -> Rows:
        return np.array([[x for part in self.parts for x in item.numbers(part)] for item in items], dtype=np.float64)


@dataclass(frozen=True)
class ItemResult:
    """Result of one item: its numbers by name, and the model's text output, if any."""

    id: str
    values: dict[str, Value]
    output: str | None = None

    def numbers(self, part: str) -> Sequence[float]:
        value = self.values[part]
        return (value,) if isinstance(value, int | float) else value


@dataclass(frozen=True)
class TaskOptions:
    """Options of tasks, of which each task uses its own; None is the task's default."""

    context: int | None = None
    stride: int | None = None
    max_tokens: int | None = None
    #: Whether prompts are sent unchanged, without the model's chat template.
    raw: bool = False
    language: str | None = None
    #: Second model, which transcribes a voice.
    judge: str | None = None
    #: Voice of a speech model.
    voice: str | None = None
    #: Whether downloads are forbidden, also of a second model.
    offline: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the options that were given and affect the result."""
        return {name: value for name, value in asdict(self).items() if value and name != "offline"}


class EvaluationTask(ABC, Generic[Work]):
    """Task whose `Work` is the type of an item; for perplexity it is a window of tokens.

    `read` is called before a model is loaded, so that errors in the data are found early; `prepare` is called once a
    model is loaded.
    """

    name: ClassVar[str]
    #: One-line summary for help and documentation.
    summary: ClassVar[str]
    #: Kind of model that the task needs: "generate", "embed", "transcribe" or "synthesize".
    model_task: ClassVar[str] = "generate"
    metrics: ClassVar[tuple[Metric, ...]]
    #: File in `data/` that is used without `--data`; None if data must be given.
    sample: ClassVar[str | None] = None
    #: Fields of a data line, in words, for errors and documentation.
    fields: ClassVar[str] = ""

    def __init__(self, options: TaskOptions | None = None) -> None:
        self.options = options or TaskOptions()

    def read(self, data: Path | None) -> list[Work]:
        """Return the items of a JSON-lines file, or of the bundled sample."""
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
        """Return the item of a JSON line. Tasks with other data override `read`."""
        raise NotImplementedError

    def prepare(self, subject: Subject, items: list[Any]) -> list[Work]:
        """Return the units of work that are scored one by one and counted by `--limit`; by default the items."""
        return items

    @abstractmethod
    def evaluate(self, subject: Subject, work: Sequence[Work]) -> Iterator[ItemResult]:
        """Yield results in the order of the work as soon as they are ready; closing the iterator cancels the rest."""
