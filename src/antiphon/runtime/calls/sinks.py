"""Sinks of call events: for readers in threads, and for readers in an event loop.

The third sink, the channel of the engine process, is `runtime/process/channel.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.events import FINAL_EVENTS, Event, TextDelta


class Sink(Protocol):
    """Receiver of events from any thread; never blocks it."""

    def put(self, call_id: str, event: Event) -> None:
        """Deliver an event of a call, or of one of its samples."""

    def put_step(self, events: Sequence[tuple[str, Event]]) -> None:
        """Deliver all events of one engine step."""


class Inbox(Protocol):
    """A reader's end: receives events in the order in which they were emitted."""

    def put(self, event: Event) -> None: ...


class ThreadSink:
    """A sink that calls the inboxes of calls in the thread that emitted the events. Inboxes are thread-safe."""

    def __init__(self) -> None:
        self._inboxes: dict[str, Inbox] = {}

    def open(self, ids: Iterable[str], inbox: Inbox) -> None:
        """Deliver the events of these ids to the inbox, until the last event of each id."""
        opened = dict.fromkeys(ids, inbox)
        for call_id in opened:
            if call_id in self._inboxes:
                raise InvalidRequestError(f"request id {call_id!r} is in use")
        self._inboxes.update(opened)

    def close(self, ids: Iterable[str]) -> None:
        """Discard further events of these ids: their reader has left."""
        for call_id in ids:
            self._inboxes.pop(call_id, None)

    def put(self, call_id: str, event: Event) -> None:
        inboxes = self._inboxes
        is_final = type(event) is not TextDelta and isinstance(event, FINAL_EVENTS)
        inbox = inboxes.pop(call_id, None) if is_final else inboxes.get(call_id)
        if inbox is not None:
            inbox.put(event)

    def put_step(self, events: Sequence[tuple[str, Event]]) -> None:
        for call_id, event in events:
            ThreadSink.put(self, call_id, event)

    def put_deltas(self, deltas: Iterable[TextDelta]) -> None:
        """Deliver the text of a step: the same as `put` of each delta, at less cost."""
        find = self._inboxes.get
        for delta in deltas:
            inbox = find(delta.id)
            if inbox is not None:
                inbox.put(delta)

    @property
    def open_ids(self) -> list[str]:
        return list(self._inboxes)


class AsyncioSink(ThreadSink):
    """A sink that calls inboxes in their event loop, which is woken once a step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def put(self, call_id: str, event: Event) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(super().put, call_id, event)

    def put_step(self, events: Sequence[tuple[str, Event]]) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(super().put_step, events)
