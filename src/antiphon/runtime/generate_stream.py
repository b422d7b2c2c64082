"""`GenerateStream`: what comes back from the engine process for one call, for one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.runtime.messages import Ended, TextDelta


class GenerateStream:
    """The samples of one `Generate`: an asynchronous iterator of `TextDelta` and, one per sample, `Ended`.

    A request that failed inside the engine gives an `Ended` with `finish_reason` "failed" and `error` set. A refusal
    (`ContextLengthError`, `OverloadedError`, ...) is raised by `accepted` or, if that was not called, by the first
    step of the iteration. When the process dies, `EngineError` is raised after what had come already was read.
    A reader that falls behind gets fewer and larger deltas. Cancelling a wait (`asyncio.wait_for`) loses nothing:
    the iteration can go on. Whoever leaves early calls `close`, or uses the stream as a context manager.
    """

    def __init__(self, call_id: str, num_samples: int, abort: Callable[[GenerateStream, str, bool], None]) -> None:
        self.id = call_id
        self.num_samples = num_samples
        self.num_unended = num_samples
        self._abort = abort
        self._items: deque[TextDelta | Ended] = deque()
        self._error: AntiphonError | None = None
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._taken: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None

    # -- for the reader -----------------------------------------------------------------------------------------

    async def accepted(self) -> None:
        """Return when the engine has taken the request (not when it runs); raise what refused it."""
        if not self._taken.done():
            await asyncio.wait([self._taken])  # which, unlike awaiting it, does not cancel it
        if self._error is not None and not self._items:
            raise self._raised()

    def __aiter__(self) -> GenerateStream:
        return self

    async def __anext__(self) -> TextDelta | Ended:
        while True:
            items = self._items
            if items:
                if len(items) > 2 * self.num_samples:
                    self._items = items = merged(items)
                return items.popleft()
            if self._error is not None:
                raise self._raised()
            if not self.num_unended or self._is_closed:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _raised(self) -> AntiphonError:
        """A new one each time: two readers' traces do not mix."""
        assert self._error is not None
        return type(self._error)(*self._error.args)

    def cancel(self, reason: str = "cancelled") -> None:
        """End the request; what was made so far, and an `Ended` for every sample, can still be read."""
        if self.num_unended and self._error is None and not self._is_closed:
            self._abort(self, reason, False)

    def close(self, reason: str = "disconnected") -> None:
        """The reader has gone: end what still runs and free what it holds. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._items.clear()
        if self.num_unended and self._error is None:
            self._abort(self, reason, True)
        self._wake()

    async def __aenter__(self) -> GenerateStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    # -- for the client -----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._taken.done():
            self._taken.set_result(None)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def accept(self) -> None:
        if not self._taken.done():
            self._taken.set_result(None)

    def put(self, delta: TextDelta) -> None:
        self._items.append(delta)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def put_end(self, end: Ended) -> None:
        self.num_unended -= 1
        self._items.append(end)
        self._wake()

    def fail(self, error: AntiphonError) -> None:
        if self.num_unended and self._error is None:
            self._error = error
            self._wake()


def merged(items: Iterable[TextDelta | Ended]) -> deque[TextDelta | Ended]:
    """For each sample one delta of all that its deltas hold, and its end after it."""
    deltas: dict[str, list[TextDelta]] = {}
    ends: dict[str, Ended] = {}
    for item in items:
        if isinstance(item, Ended):
            deltas.setdefault(item.id, [])
            ends[item.id] = item
        else:
            deltas.setdefault(item.id, []).append(item)
    result: deque[TextDelta | Ended] = deque()
    for sample, parts in deltas.items():
        if parts:
            result.append(parts[0] if len(parts) == 1 else _joined(sample, parts))
        if sample in ends:
            result.append(ends[sample])
    return result


def _joined(sample: str, parts: list[TextDelta]) -> TextDelta:
    return TextDelta(
        sample,
        "".join(part.text for part in parts),
        [token for part in parts for token in part.token_ids],
        [logprob for part in parts for logprob in part.logprobs],
        [top for part in parts for top in part.top_logprobs],
    )
