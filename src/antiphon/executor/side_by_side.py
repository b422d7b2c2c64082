"""Parallel map of independent items, each computed by one core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from antiphon.ops.threads import machine_threads, use_one_thread

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Timeout for starting the threads.
START_SECONDS = 60.0

#: Fraction of the work of small layers that runs in parallel; the rest is serial (Amdahl's law).
SHARED = 0.75


class SideBySide:
    """Computes items on all cores: one core per item if that keeps all busy, else all cores on one item at a time."""

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or machine_threads()
        self._pool = ThreadPoolExecutor(self._cores, "side-by-side", use_one_thread)
        # All start now: another thread that first calls torch while one of these starts would get one torch thread.
        all_started = threading.Barrier(self._cores, timeout=START_SECONDS)
        try:
            for started in [self._pool.submit(all_started.wait) for _ in range(self._cores)]:
                started.result(START_SECONDS)
        except BaseException:
            all_started.abort()
            self._pool.shutdown(wait=False, cancel_futures=True)
            raise

    def map(
        self, compute: Callable[[Item], Result], items: Sequence[Item], cost: Callable[[Item], float]
    ) -> list[Result]:
        """Return `compute` of every item, in order. `cost` is the relative time of an item."""
        costs = [cost(item) for item in items]
        if not fills(costs, self._cores):
            return [compute(item) for item in items]
        # Most expensive first: a long item at the end would leave the other cores idle.
        order = sorted(range(len(items)), key=lambda index: -costs[index])
        futures = {index: self._pool.submit(_computed, compute, items[index]) for index in order}
        wait(futures.values())
        return [futures[index].result() for index in range(len(items))]

    def close(self) -> None:
        self._pool.shutdown()


def fills(costs: Sequence[float], cores: int) -> bool:
    """Return whether items of these costs finish sooner with one core each than one after another on all cores."""
    if len(costs) < 2 or cores < 2:
        return False
    side_by_side = max(max(costs), sum(costs) / cores)
    return side_by_side < sum(costs) * (1 - SHARED + SHARED / cores)


def _computed(compute: Callable[[Item], Result], item: Item) -> Result:
    with torch.inference_mode():
        return compute(item)
