"""Pieces of work side by side: in order, each on one core, and only where that is sooner."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from antiphon.executor.side_by_side import SideBySide, fills
from antiphon.ops.threads import default_threads, machine_threads


@pytest.fixture
def two() -> Iterator[SideBySide]:
    made = SideBySide(cores=2)
    yield made
    made.close()


def settings(_: float) -> tuple[str, int, int, bool]:
    inference = torch.is_inference_mode_enabled()
    return threading.current_thread().name, default_threads(), torch.get_num_threads(), inference


def test_results_are_in_order_and_of_the_dearest_first(two: SideBySide) -> None:
    begun: list[int] = []
    met = threading.Barrier(2, timeout=60)  # two are computed at a time

    def compute(item: int) -> int:
        begun.append(item)
        met.wait()
        return -item

    assert two.map(compute, [1, 4, 3, 2], float) == [-1, -4, -3, -2]
    assert set(begun[:2]) == {4, 3} and set(begun[2:]) == {2, 1}


def test_each_has_one_core_and_other_threads_keep_theirs(two: SideBySide) -> None:
    here = torch.get_num_threads()
    for name, ours, torchs, inference in two.map(settings, [1.0] * 6, float):
        assert (name[:12], ours, torchs, inference) == ("side-by-side", 1, 1, True)
    assert default_threads() == machine_threads() and torch.get_num_threads() == here
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert seen == [here]


@pytest.mark.parametrize("costs", [[5.0], [9.0, 1.0], []])
def test_what_does_not_fill_the_cores_has_all_of_them(two: SideBySide, costs: list[float]) -> None:
    own = threading.current_thread().name
    got = two.map(settings, costs, float)
    assert [(name, ours) for name, ours, _, _ in got] == [(own, machine_threads())] * len(costs)


def test_an_error_comes_when_the_others_have_ended(two: SideBySide) -> None:
    ended: list[int] = []

    def compute(item: int) -> int:
        if item == 2:
            raise ValueError("item 2")
        ended.append(item)
        return item

    with pytest.raises(ValueError, match="item 2"):
        two.map(compute, [1, 2, 3, 4], lambda item: 1.0)
    assert sorted(ended) == [1, 3, 4]
    assert two.map(compute, [5, 6], lambda item: 1.0) == [5, 6]


def test_when_cores_are_filled() -> None:
    assert fills([1, 1], 2) and fills([3, 2, 2], 2) and fills([1] * 16, 16) and fills([1] * 9, 16)
    assert not fills([1, 1], 1) and not fills([1, 1], 16) and not fills([10, 1, 1], 2)
