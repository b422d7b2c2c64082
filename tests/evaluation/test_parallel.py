"""Calls in threads: results in order, and an end of the rest after an error or when nobody reads on."""

from __future__ import annotations

import threading
from threading import Event

import pytest

from antiphon.evaluation.parallel import THREADS, in_order


def test_results_are_in_the_order_of_the_items_though_later_ones_end_first() -> None:
    later = Event()

    def call(item: int, stopped: Event) -> int:
        if item == 0:
            assert later.wait(30)
        if item == THREADS - 1:
            later.set()
        return item * item

    assert list(in_order(call, range(100))) == [item * item for item in range(100)]


def test_an_error_stops_what_runs_and_begins_nothing_more() -> None:
    begun: list[int] = []
    waiting = threading.Barrier(THREADS)

    def call(item: int, stopped: Event) -> int:
        begun.append(item)
        if len(begun) <= THREADS:
            waiting.wait(30)
        if item == 0:
            raise ValueError("item 0")
        assert stopped.wait(30)
        return item

    with pytest.raises(ValueError, match="item 0"):
        list(in_order(call, range(1000)))
    assert len(begun) <= 2 * THREADS


def test_closing_stops_what_runs() -> None:
    ended: list[int] = []

    def call(item: int, stopped: Event) -> int:
        if item > 0:
            assert stopped.wait(30)
            ended.append(item)
        return item

    results = in_order(call, range(1000))
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert 0 < len(ended) <= 2 * THREADS
