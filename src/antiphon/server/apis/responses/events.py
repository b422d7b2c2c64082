"""`ResponseEvents`: numbers the events of a response, and stores the response while it runs and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.responses.run import IN_PROGRESS, ResponseRun
from antiphon.server.apis.responses.store import CANCELLED, ResponseStore, RunningResponse
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import WireEvent, WireFormat
from antiphon.server.stored.conversations import ConversationStore
from antiphon.server.web.http.errors import SERVER, ApiError
from antiphon.server.web.http.events import named_event

Stores = tuple[ResponseStore, ConversationStore]
#: Events before the first output.
BEGINNING = ("response.created", "response.in_progress")


class ResponseEvents(WireFormat):
    """Events of one response.

    The response is stored before the event with its final status. If it failed, an `error` event follows.
    """

    def __init__(self, run: ResponseRun, stores: Stores, cancel: Callable[[], None]) -> None:
        self._run = run
        self._store, self._conversations = stores
        self._cancel = cancel
        self._number = 0

    def start(self) -> Iterator[WireEvent]:
        run = self._run
        self._store.running[run.id] = RunningResponse(run.body, self._cancel, run.owner, run.log)
        yield from self._numbered({"type": kind, "response": run.body()} for kind in BEGINNING)

    def take(self, number: int, update: TextDelta | Ended) -> Iterator[WireEvent]:
        yield from self._numbered(self._run.end(update) if isinstance(update, Ended) else self._run.take(update))

    def finish(self, usage: TokenUsage) -> Iterator[WireEvent]:
        yield from self._numbered(self._last(usage))

    def fail(self, error: ApiError, usage: TokenUsage | None) -> Iterator[WireEvent]:
        yield from self._numbered(self._run.break_off(error))
        yield from self._numbered(self._last(usage))
        if self._run.error is not None:
            failure = self._run.error.body()
            yield {**failure["error"], "type": "error", "sequence_number": self._number, **failure}

    async def whole(self) -> WireEvent:
        if self._run.error is not None:
            raise self._run.error
        return self._run.body()

    def encode(self, content: WireEvent) -> bytes:
        return named_event(content["type"], content)

    def close(self) -> None:
        run = self._run
        self._store.running.pop(run.id, None)
        if run.log is None:
            return
        if run.status == IN_PROGRESS:  # ended by a deadline or a shutdown
            for _ in run.break_off(ApiError(503, "the response was ended by the server", code="ended", kind=SERVER)):
                pass
            self._store.add(run.stored())
        run.log.end()

    def _last(self, usage: TokenUsage | None) -> Iterator[WireEvent]:
        run = self._run
        run.usage = usage
        if run.is_kept:
            self._store.add(run.stored())
        run.extend_conversation(self._conversations)
        kind = "incomplete" if run.status == CANCELLED else run.status
        yield {"type": f"response.{kind}", "response": run.body()}

    def _numbered(self, events: Iterable[WireEvent]) -> Iterator[WireEvent]:
        for content in events:
            numbered = {**content, "sequence_number": self._number}
            self._number += 1
            if self._run.log is not None:
                self._run.log.append(numbered)
            yield numbered
