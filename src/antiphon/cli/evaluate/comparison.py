"""Runs of a task and their comparison with another setting, with files, or of two files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from antiphon.cli.evaluate.request import EvalRequest
from antiphon.cli.terminal.files import write_json
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.compare import Comparison, compare, comparison_table
from antiphon.evaluation.results import metrics_of, read_result, result_table
from antiphon.evaluation.tasks.registry import task_class


def run_and_compare(
    request: EvalRequest, values: Mapping[str, str], files: Sequence[Path], output: Path | None
) -> None:
    """Run the task, print its figures, and compare them with those of another setting and of earlier runs.

    `values` change the setting. After Ctrl-C, the figures so far are printed, and the command ends as after any Ctrl-C.
    """
    earlier = [(str(path), read_result(path)) for path in files]
    for path, result in earlier:
        if result["task"] != request.task.name:
            raise InvalidRequestError(f"{path} is a result of the task {result['task']}, not of {request.task.name}")
        if result.get("data") != request.data:
            raise InvalidRequestError(f"{path} is a result on {result.get('data')}, not on {request.data}")
    metrics = request.task.metrics
    loaded = request.load(request.setting)
    result = request.result(loaded, request.setting)
    print(result_table(result, metrics))
    if output is not None:
        write_json(output, result)  # before the comparisons, which may fail
    comparisons, changed = [], None
    if values and result["is_complete"]:
        other = request.setting.changed(values)
        if other.weights() != request.setting.weights():
            del loaded
            loaded = request.load(other)
        changed = request.result(loaded, other)
        print("\n" + result_table(changed, metrics))
        comparisons.append(compare(result, changed, metrics, (str(request.setting), str(other))))
    comparisons += [compare(before, result, metrics, (path, "this run")) for path, before in earlier]
    for comparison in comparisons:
        print("\n" + comparison_table(comparison))
    if output is not None and comparisons:
        write_json(output, result | _extra(changed, comparisons))
    if not result["is_complete"] or (changed is not None and not changed["is_complete"]):
        raise KeyboardInterrupt


def compare_files(files: Sequence[Path], output: Path | None) -> None:
    """Print and optionally write the comparison of two result files."""
    before, after = (read_result(path) for path in files)
    metrics = metrics_of(before, task_class(before["task"]).metrics)
    comparison = compare(before, after, metrics, (str(files[0]), str(files[1])))
    print(comparison_table(comparison))
    if output is not None:
        write_json(output, comparison.as_json())


def _extra(changed: dict[str, Any] | None, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return a result file's further fields: the run with the other setting, and the comparisons."""
    extra: dict[str, Any] = {} if changed is None else {"compared": changed}
    return extra | {"comparisons": [one.as_json() for one in comparisons]}
