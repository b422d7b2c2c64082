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
    """An asynchronous iterator of a call's events; a failure is raised by it, after what came before was read.

    `anext` may be used as well: cancelling a wait (`asyncio.wait_for`) loses nothing. `ids` are those that the sink has
    the reader's events under.
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
        """Take note of an item that came; True if nothing follows it."""
        return isinstance(item, FinalEvent)

    def _on_read(self, item: Item) -> None:
        """An item goes to the caller."""

    def _futures(self) -> tuple[asyncio.Future[None] | None, ...]:
        """What may be waited on."""
        return self._accepted, self._waiter

    @property
    def id(self) -> str:
        """The call's id, as in traces."""
        return self._control.id

    # -- for the caller -----------------------------------------------------------------------------------------

    async def accepted(self) -> None:
        """Return when the engine has taken the call (not when it runs); raise the error that rejected it."""
        if not self._accepted.done():
            await asyncio.wait([self._accepted])  # which, unlike awaiting it, does not cancel it
        if self._error is not None and not self._items:
            raise self._raised()

    def _raised(self) -> BaseException:
        """A new one each time: two readers' traces do not mix."""
        assert self._error is not None
        raised = type(self._error)(*self._error.args)
        raised.__cause__ = self._error.__cause__
        return raised

    def __aiter__(self) -> AsyncIterator[Item]:
        """Leaving the loop early (break, cancellation) closes the reader."""
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
        """Wait for an item; False at the end. Raises the failure."""
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
        """Cancel what still runs. May be called twice."""
        if not self._is_done:
            self._is_done = True
            self._sink.close(self._ids)
            self._control.cancel(reason)
        self._wake()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
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
