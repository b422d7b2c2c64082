"""`ResponseStore`: responses that can be retrieved and continued later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import Request

from antiphon.server.apis.responses.event_log import EventLog
from antiphon.server.apis.responses.output import Cuts
from antiphon.server.apis.responses.request_schemas import Item
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.server.stored.bounded_store import BoundedStore
from antiphon.server.web.http.errors import ApiError

CANCELLED = "cancelled"
MAX_ID_SHOWN = 100


@dataclass(frozen=True)
class StoredResponse:
    """A response as it was sent, and the items with which a later prompt continues it.

    Only requests with the API key `owner` find the response. `cuts` divide its text into the deltas of its stream.
    """

    body: WireEvent
    inputs: list[WireEvent]
    items: list[Item] = field(repr=False)
    owner: int | None = None
    cuts: Cuts = field(default_factory=list, repr=False)

    @property
    def id(self) -> str:
        return str(self.body["id"])


@dataclass(frozen=True)
class RunningResponse:
    """A response being generated.

    `snapshot` returns its current state, `cancel` ends it, and `log` has its events if it runs in the background.
    """

    snapshot: Callable[[], WireEvent]
    cancel: Callable[[], None]
    owner: int | None = None
    log: EventLog | None = None


class ResponseStore:
    """Stored and running responses, for one event loop.

    Stored responses are limited in number and bytes; keys that fill the store get equal shares.
    """

    def __init__(self, max_responses: int, max_bytes: int) -> None:
        self._store: BoundedStore[StoredResponse] = BoundedStore(max_responses, max_bytes)
        self.running: dict[str, RunningResponse] = {}
        #: Logs of background responses that have not begun, and tasks of all background responses.
        self.expected: dict[str, EventLog] = {}
        self.background: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._store)

    @property
    def num_bytes(self) -> int:
        """Bytes of the stored responses and their inputs as JSON."""
        return self._store.num_bytes

    def add(self, stored: StoredResponse) -> None:
        size = len(orjson.dumps(stored.body)) + len(orjson.dumps(stored.inputs))
        self._store.put(stored.id, stored.owner, stored, size + 8 * sum(map(len, stored.cuts)))

    def find(self, response_id: str, owner: int | None, param: str | None = None) -> StoredResponse:
        """Return the response. Raises `ApiError` if it is unknown, removed, or belongs to another key."""
        stored = self._store.get(response_id, owner)
        if stored is None:
            raise self.missing(response_id, param)
        return stored

    def find_running(self, response_id: str, owner: int | None) -> RunningResponse | None:
        running = self.running.get(response_id)
        return running if running is not None and running.owner == owner else None

    def remove(self, response_id: str, owner: int | None) -> None:
        if not self._store.remove(response_id, owner):
            raise self.missing(response_id)

    def missing(self, response_id: str, param: str | None = None) -> ApiError:
        bounds = f"the last {self._store.max_objects:,} are kept, up to {self._store.max_bytes:,} bytes"
        message = f"no response has the id {response_id[:MAX_ID_SHOWN]!r}: {bounds}, unless store is false"
        if param is None:
            return ApiError(404, message, code="response_not_found")
        return ApiError(400, message, code="previous_response_not_found", param=param)


def store_of(request: Request) -> ResponseStore:
    store: ResponseStore = request.app.state.responses
    return store
