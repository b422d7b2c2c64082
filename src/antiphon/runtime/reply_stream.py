"""`ReplyStream`: the reader's end of an answer in parts that the engine process sends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from antiphon.errors import AntiphonError

Part = TypeVar("Part")


class ReplyStream(ABC, Generic[Part]):
    """An asynchronous iterator of parts, the last of which ends it; failures are raised by it.

    Whoever leaves early calls `close`, or uses the stream as a context manager.
    """

    def __init__(self, call_id: str, abort: Callable[[Any], None]) -> None:
        self.id = call_id
        self._abort = abort
        self._items: deque[Part] = deque()
        self._error: AntiphonError | None = None
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._taken: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None

    @staticmethod
    @abstractmethod
    def _ends(part: Part) -> bool:
        """Whether nothing follows this part."""

    def _read(self, part: Part) -> None:
        """A part goes to the reader."""

    def _futures(self) -> tuple[asyncio.Future[None] | None, ...]:
        """Who may be waiting for something to happen."""
        return self._taken, self._waiter

    # -- for the reader -----------------------------------------------------------------------------------------

    def _raised(self) -> AntiphonError:
        """A new one each time: two readers' traces do not mix."""
        assert self._error is not None
        return type(self._error)(*self._error.args)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Part:
        while True:
            if self._items:
                part = self._items.popleft()
                self._read(part)
                return part
            if self._error is not None:
                raise self._raised()
            if self._is_done:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def close(self) -> None:
        """The reader has gone: end what still runs. May be called twice."""
        if not self._is_done:
            self._is_done = True
            self._abort(self)
            self._wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    # -- for the client -----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        for future in self._futures():
            if future is not None and not future.done():
                future.set_result(None)

    def accept(self) -> None:
        if not self._taken.done():
            self._taken.set_result(None)

    def put(self, part: Part) -> None:
        if not self._is_done:
            self._items.append(part)
            self._is_done = self._ends(part)
            self._wake()

    def fail(self, error: AntiphonError) -> None:
        if not self._is_done:
            self._error, self._is_done = error, True
            self._wake()
