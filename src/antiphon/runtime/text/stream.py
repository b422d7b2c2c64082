"""`GenerateStream`, `AsyncStream`: text for an asyncio reader, from a call in this process or the engine process."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable

from antiphon.engine.request import FinishReason
from antiphon.errors import EngineError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import Ended, Event, TextDelta
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.text.output import Completion, SampleOutput, check_not_failed


class GenerateStream(AsyncReader[TextDelta | Ended]):
    """An asynchronous iterator of `TextDelta`s and one `Ended` per sample.

    A request that failed inside the engine gives an `Ended` with `finish_reason` "failed" and `error` set. A rejection
    (`ContextLengthError`, `OverloadedError`, ...) is raised by `accepted` or, if that was not called, by the first step
    of the iteration. A reader that falls behind receives fewer and larger deltas.
    """

    def __init__(self, control: CallControl, sink: ThreadSink, num_samples: int, ids: list[str] | None = None) -> None:
        super().__init__(control, sink, ids)
        self.num_samples = num_samples
        self.num_unended = num_samples

    async def __anext__(self) -> TextDelta | Ended:
        self._merge()
        return await super().__anext__()

    async def read(self) -> list[TextDelta | Ended]:
        """Return all unread items, waiting for at least one; an empty list at the end. Raise as `anext` does."""
        if not self._items and not await self._has_more():
            return []
        self._merge()
        items = list(self._items)
        self._items.clear()
        return items

    def _merge(self) -> None:
        if len(self._items) > 2 * self.num_samples:
            self._items = merged(self._items)

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End the request. Text generated so far, and an `Ended` for every sample, can still be read."""
        if not self._is_done:
            self._control.cancel(reason)

    def close(self, reason: FinishReason = FinishReason.DISCONNECTED) -> None:
        """Cancel the call if it is still running and discard unread items. May be called twice."""
        self._items.clear()
        super().close(reason)

    def put(self, event: Event) -> None:
        if type(event) is not TextDelta:
            super().put(event)
        elif not self._is_done:
            self._items.append(event)
            waiter = self._waiter
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _is_last(self, item: TextDelta | Ended) -> bool:
        self.num_unended -= 1
        return not self.num_unended


class AsyncStream:
    """An asynchronous iterator of deltas. Leaving it early (break, cancellation, `aclose`) cancels the request."""

    def __init__(self, output: SampleOutput, control: CallControl, sink: ThreadSink) -> None:
        self.output = output
        self._reader = GenerateStream(control, sink, 1)
        self._ended: Ended | None = None

    @property
    def id(self) -> str:
        """Request id, as in traces."""
        return self._reader.id

    def __aiter__(self) -> AsyncIterator[TextDelta]:
        return self._deltas()

    async def _deltas(self) -> AsyncIterator[TextDelta]:
        try:
            async for item in self._reader:
                if isinstance(item, TextDelta):
                    yield item
                else:
                    self._ended = item
        finally:
            self.close()
        if self._ended is not None:
            check_not_failed(self._ended)

    async def wait(self) -> Completion:
        """Read to the end and return the whole answer."""
        async for _ in self:
            pass
        return self.completion()

    def completion(self) -> Completion:
        """Return the whole answer; the stream must have been read to its end."""
        if self._ended is None:
            raise EngineError(f"request {self.id} has not ended yet, or was not read to its end")
        return self.output.completion(self._ended)

    def cancel(self) -> None:
        """Cancel the request. What was generated so far can still be read."""
        self._reader.cancel()

    def close(self) -> None:
        """Cancel the request if it is still running and free its memory."""
        self._reader.close()

    async def aclose(self) -> None:
        """Call `close`; for `contextlib.aclosing`."""
        self.close()


def merged(items: Iterable[TextDelta | Ended]) -> deque[TextDelta | Ended]:
    """Join the deltas of each sample into one, followed by the sample's `Ended` if there is one."""
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
            result.append(joined(parts))
        if sample in ends:
            result.append(ends[sample])
    return result


def joined(parts: list[TextDelta]) -> TextDelta:
    if len(parts) == 1:
        return parts[0]
    return TextDelta(
        parts[0].id,
        "".join(part.text for part in parts),
        [token for part in parts for token in part.token_ids],
        [logprob for part in parts for logprob in part.logprobs],
        [top for part in parts for top in part.top_logprobs],
    )
