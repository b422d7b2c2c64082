"""`Passage`: one request on its way through the server, and `Passages`: those that are on their way now."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from antiphon.server.http.errors import ApiError

CLIENT_GONE = 499


@dataclass(eq=False)
class Passage:
    """What is known of one request. Nothing in it shows text that a client sent, unless the log was asked for it."""

    request_id: str
    method: str = ""
    path: str = ""
    #: Which of the keys opened; None without keys.
    key: int | None = None
    logs_text: bool = False
    started: float = field(default_factory=time.perf_counter)
    status: int = CLIENT_GONE
    has_begun: bool = False
    is_event_stream: bool = False
    is_over: bool = False
    figures: dict[str, Any] = field(default_factory=dict)
    #: Seconds for which the models that it used stay, if it said so.
    keep_alive: float | None = None
    #: Called when it has ended: what it held is given back.
    at_end: list[Callable[[], None]] = field(default_factory=list)
    task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)
    ending: ApiError | None = None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def end_with(self, error: ApiError) -> None:
        """End it wherever it is; the client gets the error."""
        if self.task is not None and not self.is_over and self.ending is None:
            self.ending = error
            self.task.cancel()

    def close(self) -> None:
        self.is_over = True
        while self.at_end:
            self.at_end.pop()()


#: Of the request that the running code works for.
current_passage: ContextVar[Passage | None] = ContextVar("current_passage", default=None)


class Passages:
    """The requests that were let in and have not ended."""

    def __init__(self) -> None:
        self._running: set[Passage] = set()
        self._per_key: Counter[int | None] = Counter()
        self._left = asyncio.Event()

    def __iter__(self) -> Iterator[Passage]:
        return iter(sorted(self._running, key=lambda passage: passage.started))

    def __len__(self) -> int:
        return len(self._running)

    def of_key(self, key: int | None) -> int:
        return self._per_key[key]

    def enter(self, passage: Passage) -> None:
        self._running.add(passage)
        self._per_key[passage.key] += 1

    def leave(self, passage: Passage) -> None:
        if passage in self._running:
            self._running.discard(passage)
            self._per_key[passage.key] -= 1
            self._left.set()

    async def until_idle(self, seconds: float) -> bool:
        """Whether all ended within that time."""
        deadline = time.monotonic() + seconds
        while self._running:
            self._left.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._left.wait(), left)
            except TimeoutError:
                return False
        return True
