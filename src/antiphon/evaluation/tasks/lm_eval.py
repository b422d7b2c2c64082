"""`lm-eval:NAME`: a task of the `lm-eval` package, run by that package against the engine."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from antiphon.counted import counted
from antiphon.dependencies import import_dependency
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.evaluation.metrics.statistics import Rows, mean
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric, TaskOptions, Value

PREFIX = "lm-eval:"
#: lm-eval's aggregations of numbers. Others (BLEU, chrF) aggregate texts, so they cannot be resampled here.
NUMERIC = frozenset(
    {"mean", "nanmean", "median", "perplexity", "weighted_perplexity", "bits_per_byte", "f1_score", "matthews_corrcoef"}
)
#: Maximum task names in an error.
SHOWN = 5
#: Prefixes of metrics that are percentages.
SHARES = ("acc", "exact_match")


class LmEval(EvaluationTask[int]):
    """lm-eval task whose unit of work is the index of a document.

    Prompts, few-shot examples, filters and scores are lm-eval's own.
    """

    name = f"{PREFIX}NAME"
    summary = "a task of the lm-eval package; --data is a folder with YAML files of tasks"
    metrics: ClassVar[tuple[Metric, ...]] = ()

    def __init__(self, options: TaskOptions | None = None, name: str = "") -> None:
        super().__init__(options)
        self.name = name  # type: ignore[misc]
        self._wanted = name.removeprefix(PREFIX)
        if not self._wanted:
            raise InvalidRequestError(f"{PREFIX} needs the name of a task, as in {PREFIX}hellaswag")
        import_dependency("lm_eval", "a task of lm-eval", "lm-eval")

    def read(self, data: Path | None) -> list[int]:
        """Return the indexes of the task's documents, which lm-eval reads or downloads here."""
        self._task, self._manager = load_task(self._wanted, data)
        self.metrics, left_out = metrics_of(self._task)  # type: ignore[misc]
        if not self.metrics:
            raise InvalidRequestError(
                f"lm-eval computes the metrics of {self._wanted!r} from texts ({', '.join(left_out)}); run it with "
                "lm-eval's own command against `antiphon serve`"
            )
        return list(range(len(self._task.eval_docs)))

    def evaluate(self, subject: Subject, work: Sequence[int]) -> Iterator[ItemResult]:
        from lm_eval import simple_evaluate

        from antiphon.evaluation.lm_eval_adapter import EngineLM

        found = simple_evaluate(
            model=EngineLM(subject),
            tasks=[self._task],
            task_manager=self._manager,  # without a manager, the files of all tasks are read again
            limit=len(work),
            bootstrap_iters=0,
            log_samples=True,
        )
        (samples,) = found["samples"].values()
        documents: dict[int, list[dict[str, Any]]] = {}
        for sample in samples:  # one sample per document and filter
            documents.setdefault(sample["doc_id"], []).append(sample)
        for number, own in sorted(documents.items()):
            yield ItemResult(str(number), self.values(own), output_of(own[0]))

    def values(self, samples: Sequence[dict[str, Any]]) -> dict[str, Value]:
        """Return one document's numbers from all filters, and its log-likelihoods."""
        values: dict[str, Value] = {}
        for sample in samples:
            for name in sample["metrics"]:
                shown = metric_name(name, sample["filter"])
                if any(metric.name == shown for metric in self.metrics):
                    value = sample[name]
                    values[shown] = [float(x) for x in value] if isinstance(value, list | tuple) else float(value)
        answers = samples[0]["filtered_resps"]
        if all(isinstance(answer, tuple | list) and len(answer) == 2 for answer in answers):
            values["logprobs"] = [float(logprob) for logprob, _ in answers]
        return values


def load_task(name: str, data: Path | None) -> tuple[Any, Any]:
    """Load a task that comes with lm-eval or lies in a folder; return it with the manager of all tasks.

    A task that lm-eval cannot load raises `InvalidRequestError`.
    """
    from lm_eval.tasks import TaskManager

    if data is not None and not data.is_dir():
        raise InvalidRequestError(f"{data} is not a folder; for a task of lm-eval, --data is one with its YAML files")
    manager = TaskManager() if data is None else TaskManager(include_path=str(data), include_defaults=False)
    if name not in manager.all_tasks:
        raise InvalidRequestError(
            f"{'lm-eval' if data is None else data} has no task {name!r}; {_known(name, manager.all_tasks)}"
        )
    try:
        tasks = manager.load([name])["tasks"]
    except AntiphonError:
        raise
    except Exception as error:  # reading or downloading a dataset can raise anything
        raise InvalidRequestError(f"lm-eval cannot load the task {name!r}: {type(error).__name__}: {error}") from error
    if len(tasks) != 1:
        raise InvalidRequestError(
            f"{name!r} is a group of {counted(len(tasks), 'task')} ({_some(list(tasks))}); name one of them"
        )
    return next(iter(tasks.values())), manager


def _known(name: str, names: Sequence[str]) -> str:
    """Suggest the most similar names, or list a few."""
    near = difflib.get_close_matches(name, names, n=SHOWN)
    if near and len(names) > SHOWN:
        return f"did you mean {', '.join(near)}?"
    return f"there {'is' if len(names) == 1 else 'are'}: {_some(names) or 'none'}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


def metric_name(name: str, filter_name: str) -> str:
    return name if filter_name == "none" else f"{name} ({filter_name})"


def metrics_of(task: Any) -> tuple[tuple[Metric, ...], list[str]]:
    """Return a task's metrics for each of its filters, and the names of metrics that are not computed from numbers."""
    found, left_out = [], []
    for name, aggregate in task.aggregation().items():
        if getattr(aggregate, "__name__", "") not in NUMERIC:
            left_out.append(name)
            continue
        for one in task._filters:
            shown = metric_name(name, one.name)
            unit = "%" if name.startswith(SHARES) and aggregate.__name__ == "mean" else ""
            is_better = bool(task.higher_is_better().get(name, True))
            found.append(Metric(shown, (shown,), statistic_of(aggregate), is_better, unit))
    return tuple(found), left_out


def statistic_of(aggregate: Callable[[list[Any]], Any]) -> Callable[[Rows], float]:
    """Return lm-eval's aggregation of numbers, or of tuples of numbers, as a statistic of rows."""
    if aggregate.__name__ == "mean":
        return mean
    return lambda rows: float(aggregate([row[0] if len(row) == 1 else tuple(row) for row in rows.tolist()]))


def output_of(sample: dict[str, Any]) -> str | None:
    answer = sample["filtered_resps"][0]
    return answer if isinstance(answer, str) else None
