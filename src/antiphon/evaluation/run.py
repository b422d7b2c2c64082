"""Run of a task on a model, with progress; Ctrl-C keeps the finished items."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult

#: Callback with the number of finished items and of all items.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TaskRun:
    """Results of a task's finished items, fewer than `total` if the run was interrupted."""

    items: list[ItemResult]
    total: int
    seconds: float

    @property
    def is_complete(self) -> bool:
        return len(self.items) == self.total


def run_task(
    task: EvaluationTask[Any],
    subject: Subject,
    items: list[Any],
    limit: int | None = None,
    on_progress: Progress = lambda done, total: None,
) -> TaskRun:
    """Score the items from `task.read`. After Ctrl-C, return the items that are finished."""
    work = task.prepare(subject, items)[:limit]
    if not work:
        raise InvalidRequestError(f"task {task.name} has no items to score")
    results: list[ItemResult] = []
    started = time.monotonic()
    on_progress(0, len(work))
    try:
        with closing(cast(Any, task.evaluate(subject, work))) as scored:
            for result in scored:
                results.append(result)
                on_progress(len(results), len(work))
    except KeyboardInterrupt:
        if not results:
            raise
    return TaskRun(results, len(work), time.monotonic() - started)
