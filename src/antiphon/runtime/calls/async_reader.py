"""`AsyncReader`: an asyncio reader of a call's events. The call runs in this process or in the engine process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, Self, TypeVar

from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import Accepted, Event, FinalEvent
from antiphon.runtime.calls.sinks import ThreadSink

Item = TypeVar("Item")


class AsyncReader(Generic[Item]):
    """An asynchronous iterator of a call's events; a failure is raised after all earlier events are read.

    `anext` works too: cancelling a wait (`asyncio.wait_for`) loses no event. `ids` are the ids whose events the reader
    receives from the sink (default: the call's own).
    """

    def __init__(self, control: CallControl, sink: ThreadSink, ids: list[str] | None = None) -> None:
        self._control = control
        self._sink = sink
        self._ids = [control.id] if ids is None else ids
        self._items: deque[Item] = deque()
        self._error: AntiphonError | None = None
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._accepted: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None
        sink.open(self._ids, self)

    def _is_last(self, item: Item) -> bool:
        """Record a received item; return whether it is the last."""
        return isinstance(item, FinalEvent)

    def _on_read(self, item: Item) -> None:
        """Override to act when the caller reads an item."""

    def _futures(self) -> tuple[asyncio.Future[None] | None, ...]:
        """Return the futures that a caller may be waiting on."""
        return self._accepted, self._waiter

    @property
    def id(self) -> str:
        """Call id, as in traces."""
        return self._control.id

    # -- for the caller -----------------------------------------------------------------------------------------

    async def accepted(self) -> None:
        """Return when the engine has accepted the call (it may not run yet); raise the error that rejected it."""
        if not self._accepted.done():
            await asyncio.wait([self._accepted])  # unlike `await`, `wait` does not cancel the future
        if self._error is not None and not self._items:
            raise self._raised()

    def _raised(self) -> BaseException:
        """Return a new copy of the error, so that the tracebacks of two readers do not mix."""
        assert self._error is not None
        raised = type(self._error)(*self._error.args)
        raised.__cause__ = self._error.__cause__
        return raised

    def __aiter__(self) -> AsyncIterator[Item]:
        """Return an iterator; leaving its loop early (break, cancellation) closes the reader."""
        return self._until_left()

    async def _until_left(self) -> AsyncIterator[Item]:
        try:
            while True:
                try:
                    item = await self.__anext__()
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.close()

    async def __anext__(self) -> Item:
        if not self._items and not await self._has_more():
            raise StopAsyncIteration
        item = self._items.popleft()
        self._on_read(item)
        return item

    async def _has_more(self) -> bool:
        """Wait for an item and return True, or False at the end. Raise the error if the call failed."""
        while not self._items:
            if self._error is not None:
                raise self._raised()
            if self._is_done:
                return False
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return True

    def close(self, reason: FinishReason = FinishReason.DISCONNECTED) -> None:
        """Cancel the call if it is still running. May be called twice."""
        if not self._is_done:
            self._is_done = True
            self._sink.close(self._ids)
            self._control.cancel(reason)
        self._wake()

    async def aclose(self) -> None:
        """Call `close`; for `contextlib.aclosing`."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # -- for the sink, in the reader's event loop ---------------------------------------------------------------

    def put(self, event: Event) -> None:
        if isinstance(event, Accepted):
            if not self._accepted.done():
                self._accepted.set_result(None)
        elif isinstance(event, AntiphonError):
            self.fail(event)
        elif not self._is_done:
            self._items.append(event)  # type: ignore[arg-type]
            if self._is_last(event):  # type: ignore[arg-type]
                self._is_done = True
                self._sink.close(self._ids)
            self._wake()

    def fail(self, error: AntiphonError) -> None:
        if not self._is_done:
            self._error, self._is_done = error, True
            self._sink.close(self._ids)
            self._wake()

    def _wake(self) -> None:
        for future in self._futures():
            if future is not None and not future.done():
                future.set_result(None)
