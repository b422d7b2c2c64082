"""`ResponseStore`: responses that can be retrieved and continued later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import Request

from antiphon.server.http.errors import ApiError
from antiphon.server.responses.request_schemas import Item

CANCELLED = "cancelled"
MAX_ID_SHOWN = 100


@dataclass(frozen=True)
class StoredResponse:
    """A response as it was sent, and the items from which a response that continues it builds its prompt.

    `owner` is the API key that it belongs to; with another key it is not found.
    """

    body: dict[str, Any]
    inputs: list[dict[str, Any]]
    items: list[Item] = field(repr=False)
    owner: int | None = None

    @property
    def id(self) -> str:
        return str(self.body["id"])


@dataclass(frozen=True)
class RunningResponse:
    """A response being generated: `snapshot` is its present state, `cancel` ends it."""

    snapshot: Callable[[], dict[str, Any]]
    cancel: Callable[[], None]
    owner: int | None = None


class ResponseStore:
    """Bounded by number and by bytes; the least recently used response is removed first. For one event loop."""

    def __init__(self, max_responses: int, max_bytes: int) -> None:
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._stored: OrderedDict[str, tuple[StoredResponse, int]] = OrderedDict()
        self._num_bytes = 0
        self.running: dict[str, RunningResponse] = {}

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def num_bytes(self) -> int:
        """Size of the stored responses and their inputs as JSON."""
        return self._num_bytes

    def add(self, stored: StoredResponse) -> None:
        size = len(orjson.dumps(stored.body)) + len(orjson.dumps(stored.inputs))
        self._stored[stored.id] = (stored, size)
        self._num_bytes += size
        while self._stored and (len(self._stored) > self._max_responses or self._num_bytes > self._max_bytes):
            _, (_, freed) = self._stored.popitem(last=False)
            self._num_bytes -= freed

    def find(self, response_id: str, owner: int | None, param: str | None = None) -> StoredResponse:
        """The response. One that was never stored, was removed, or belongs to another key is not found."""
        stored, _ = self._stored.get(response_id, (None, 0))
        if stored is None or stored.owner != owner:
            raise self.missing(response_id, param)
        self._stored.move_to_end(response_id)
        return stored

    def find_running(self, response_id: str, owner: int | None) -> RunningResponse | None:
        running = self.running.get(response_id)
        return running if running is not None and running.owner == owner else None

    def remove(self, response_id: str, owner: int | None) -> None:
        self.find(response_id, owner)
        _, size = self._stored.pop(response_id)
        self._num_bytes -= size

    def missing(self, response_id: str, param: str | None = None) -> ApiError:
        kept = f"the last {self._max_responses:,} are kept, up to {self._max_bytes:,} bytes, unless store is false"
        message = f"no response has the id {response_id[:MAX_ID_SHOWN]!r}: {kept}"
        if param is None:
            return ApiError(404, message, code="response_not_found")
        return ApiError(400, message, code="previous_response_not_found", param=param)


def store_of(request: Request) -> ResponseStore:
    store: ResponseStore = request.app.state.responses
    return store
