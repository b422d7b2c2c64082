"""Blocking calls in several threads, with results in the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Recordings or sentences in the engine at once.
THREADS = 16


def in_order(function: Callable[[Item, Event], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield `function(item, stopped)` for each item, computed by THREADS threads.

    After an error, or when the iterator is closed, `stopped` is set and no other item starts. The iterator ends once
    the running calls have returned, so they should check `stopped` regularly.
    """
    stopped = Event()
    running: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(THREADS, "antiphon-eval") as pool:
        try:
            for item in items:
                if len(running) == 2 * THREADS:
                    yield running.popleft().result()
                running.append(pool.submit(function, item, stopped))
            while running:
                yield running.popleft().result()
        finally:
            stopped.set()
            for future in running:
                future.cancel()
