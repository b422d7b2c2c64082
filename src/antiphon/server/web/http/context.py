"""`RequestContext`: the server's data about one request while it is handled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from starlette.types import Send

from antiphon.server.web.http.error_formats import OPENAI, ErrorFormat
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.ignored_fields import IgnoredFields
from antiphon.server.web.http.time_limit import TimeLimit

#: Priorities as the engine counts them.
NORMAL_PRIORITY, LOW_PRIORITY = 2, 3
#: Status logged when a client disconnects before the response.
CLIENT_CLOSED_REQUEST = 499


#: Figures and names for the line logged when a request ends.
LogFields = dict[str, Any]


@dataclass(eq=False)
class RequestContext:
    """State of one request. Text that the client sent is in it only with `logs_text`.

    `log_fields` are added to the line that is logged when the request ends.
    """

    request_id: str
    method: str = ""
    path: str = ""
    #: Number of the API key that was sent; None if the server has no keys.
    key: int | None = None
    #: Session of the client secret that was sent in place of a key.
    secret_session: dict[str, Any] | None = None
    logs_text: bool = False
    #: Error format of the API that the route belongs to.
    error_format: ErrorFormat = OPENAI
    #: Whether an unknown field is an error.
    is_strict: bool = False
    ignored: IgnoredFields = field(default_factory=IgnoredFields)
    #: Whether the request is part of a batch; requests of clients go first.
    is_low_priority: bool = False
    #: Whether the request needs nothing of the engine, however long it is open.
    is_watching: bool = False
    started: float = field(default_factory=time.perf_counter)
    status: int = CLIENT_CLOSED_REQUEST
    has_begun: bool = False
    is_event_stream: bool = False
    is_over: bool = False
    log_fields: LogFields = field(default_factory=dict)
    #: Seconds that the request's models stay loaded; None if the request does not set them.
    keep_alive: float | None = None
    #: Callbacks that release the request's resources when it ends.
    at_end: list[Callable[[], None]] = field(default_factory=list)
    task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)
    ending: ApiError | None = None
    #: Ends the request after `--timeout`; a long transcription restarts it with each segment. None without a limit.
    limit: TimeLimit | None = None
    #: Completes the error that the request fails with, before it is sent.
    on_failure: Callable[[ApiError], None] | None = None
    #: Sends parts of a response after its beginning, bypassing middleware that only inspects the beginning.
    send_part: Send | None = None
    #: For sessions: called when the server begins to shut down, so that the session ends soon.
    on_draining: Callable[[], None] | None = None
    #: For sessions: builds the last message before the session is closed for an error.
    last_message: Callable[[ApiError], str] | None = None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def end_with(self, error: ApiError) -> None:
        """Cancel the request; the client gets the error."""
        if self.task is not None and not self.is_over and self.ending is None:
            self.ending = error
            self.task.cancel()

    def note_progress(self) -> None:
        """Restart the request's time limit."""
        if self.limit is not None:
            self.limit.restart()

    def announce_draining(self) -> None:
        if self.on_draining is not None:
            self.on_draining()

    def close(self) -> None:
        self.is_over = True
        while self.at_end:
            self.at_end.pop()()


#: Context of the request that the running code belongs to.
current_context: ContextVar[RequestContext | None] = ContextVar("current_context", default=None)


def context_of(request: Request) -> RequestContext:
    context: RequestContext = request.scope["context"]
    return context


def priority_of(given: int | None) -> int:
    """Return the priority of the current request's calls. In a batch it is low, whatever the body says."""
    context = current_context.get()
    if context is not None and context.is_low_priority:
        return LOW_PRIORITY
    return NORMAL_PRIORITY if given is None else given
