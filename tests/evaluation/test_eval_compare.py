"""Comparisons of results: only of the same work, with the p value of an exact test."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.compare import compare, comparison_table
from antiphon.evaluation.metrics.statistics import mean
from antiphon.evaluation.results import metrics_of, read_result, result_of, result_table
from antiphon.evaluation.run import TaskRun
from antiphon.evaluation.task import ItemResult, ratio
from antiphon.evaluation.tasks.choice import Choice
from antiphon.evaluation.tasks.perplexity import Perplexity

LABELS = ("before", "after")


def choice_result(correct: list[float], total: int | None = None) -> dict[str, Any]:
    items = [
        ItemResult(str(index), {"correct": one, "correct_per_byte": one, "logprobs": [-1.0, -2.0]})
        for index, one in enumerate(correct)
    ]
    return result_of(Choice(), "model", TaskRun(items, total or len(items), 1.0), {"kv": "int8"}, "data", {})


def perplexity_result(nll: list[float], tokens: int = 10) -> dict[str, Any]:
    items = [ItemResult(str(index), {"nll": one, "tokens": tokens, "bytes": 40}) for index, one in enumerate(nll)]
    return result_of(Perplexity(), "model", TaskRun(items, len(items), 1.0), {}, "data", {})


def test_the_p_value_is_that_of_the_sign_test() -> None:
    """Of ten items nine differ, eight of them in one direction: two sides of a binomial."""
    before, after = choice_result([0.0] * 8 + [1.0, 1.0]), choice_result([1.0] * 8 + [0.0, 1.0])
    row = compare(before, after, Choice.metrics, LABELS).rows[0]
    tail = sum(math.comb(9, wins) for wins in (8, 9)) / 2**9
    assert (row.before, row.after, row.test.difference) == pytest.approx((0.2, 0.9, 0.7))
    assert row.test.p_value == pytest.approx(2 * tail)
    assert row.verdict == "better"
    assert compare(after, before, Choice.metrics, LABELS).rows[0].verdict == "worse"
    assert compare(after, after, Choice.metrics, LABELS).rows[0].verdict == "no difference shown"


def test_a_lower_perplexity_is_better() -> None:
    nll = [20.0 + index for index in range(12)]
    comparison = compare(perplexity_result(nll), perplexity_result([x - 3 for x in nll]), Perplexity.metrics, LABELS)
    row = comparison.rows[0]
    assert [one.metric.name for one in comparison.rows] == ["perplexity", "bits per byte"]
    assert row.before == pytest.approx(math.exp(25.5 / 10)) and row.after == pytest.approx(math.exp(22.5 / 10))
    assert row.verdict == "better" and row.test.p_value < 0.01
    table = comparison_table(comparison)
    assert "after against before, 12 items" in table and "better" in table


def test_what_only_one_has_is_left_out() -> None:
    comparison = compare(choice_result([1.0] * 8), choice_result([1.0] * 5, 8), Choice.metrics, LABELS)
    assert (comparison.num_items, comparison.num_left_out) == (5, 3)
    assert "5 items; 3 items that only one has left out" in comparison_table(comparison)


def test_different_work_is_rejected() -> None:
    choice, other = choice_result([1.0]), perplexity_result([3.0])
    with pytest.raises(InvalidRequestError, match="the task is choice in before and perplexity in after"):
        compare(choice, other, Choice.metrics, LABELS)
    with pytest.raises(InvalidRequestError, match="the data is data in before and other in after"):
        compare(choice, {**choice, "data": "other"}, Choice.metrics, LABELS)
    with pytest.raises(InvalidRequestError, match="their items differ in tokens"):
        compare(other, perplexity_result([3.0], tokens=11), Perplexity.metrics, LABELS)
    renamed = {**choice, "items": [{**item, "id": f"x{item['id']}"} for item in choice["items"]]}
    with pytest.raises(InvalidRequestError, match="no item in common"):
        compare(choice, renamed, Choice.metrics, LABELS)
    lacking = {**choice, "items": [{"id": "0", "values": {}}]}
    with pytest.raises(InvalidRequestError, match="after lacks what accuracy is computed from"):
        compare(choice, lacking, Choice.metrics, LABELS)


def test_a_partial_result_says_so() -> None:
    result = choice_result([1.0, 0.0], total=40)
    assert result["is_complete"] is False
    assert "interrupted: 2 of 40 items were scored" in result_table(result, Choice.metrics)


def test_metrics_that_a_task_does_not_know_are_read_if_they_are_means() -> None:
    result = choice_result([1.0, 0.0])
    accuracy, per_byte = metrics_of(result, Choice.metrics[:1])
    assert accuracy is Choice.metrics[0]
    assert (per_byte.name, per_byte.parts, per_byte.unit) == ("accuracy per byte", ("correct_per_byte",), "%")
    assert [metric.name for metric in metrics_of(perplexity_result([1.0]), ())] == []


def test_intervals_need_some_items() -> None:
    few, many = choice_result([1.0, 0.0]), choice_result([1.0, 0.0] * 20)
    assert (few["metrics"]["accuracy"]["value"], few["metrics"]["accuracy"]["interval_95"]) == (0.5, None)
    low, high = many["metrics"]["accuracy"]["interval_95"]
    # Forty throws of a coin: the standard error is 0.079.
    assert low == pytest.approx(0.5 - 1.96 * 0.079, abs=0.03) and high == pytest.approx(0.5 + 1.96 * 0.079, abs=0.03)


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "eval", "format": 99, "items": []}', '{"kind": "latency"}'])
def test_other_files_are_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(InvalidRequestError, match=r"is not JSON|was not written by `antiphon eval"):
        read_result(path)


def test_statistics_of_nothing_are_not_numbers() -> None:
    import numpy as np

    assert math.isnan(mean(np.zeros((0, 1)))) and math.isnan(ratio(np.zeros((2, 2))))
