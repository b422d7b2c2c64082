"""`Admission`: admits requests and sessions by key, host and requests in flight."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from starlette.types import Scope
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from antiphon.counted import counted
from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.client_secrets import ClientSecrets
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import SessionLimits
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError, ClientDisconnectedError, unavailable
from antiphon.server.web.http.time_limit import TimeLimit
from antiphon.server.web.middleware.active_requests import ActiveRequests

REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


@dataclass(frozen=True)
class Rules:
    """Rules of admission and time limits. `per_key` bounds the requests in flight of one key.

    `Host`, and `Origin` of forms, are checked only without keys: a hostile page lacks a key. `Origin` of a WebSocket is
    always checked.
    """

    admin: AdminAccess
    hosts: AllowedHosts
    keys: KeyRing | None = None
    client_secrets: ClientSecrets = field(default_factory=ClientSecrets)
    per_key: int | None = None
    request_seconds: float = 600.0
    logs_text: bool = False
    is_strict: bool = False
    #: Origins of pages, besides the server's own, that may use the server from a browser.
    origins: tuple[str, ...] = ()
    sessions: SessionLimits = field(default_factory=SessionLimits)


class Admission:
    def __init__(self, rules: Rules, requests: ActiveRequests, is_draining: Callable[[], bool]) -> None:
        self.rules = rules
        self.requests = requests
        self._is_draining = is_draining

    @asynccontextmanager
    async def handling(
        self, context: RequestContext, fail: Callable[[Exception], Awaitable[None]]
    ) -> AsyncIterator[Callable[[ApiError, float], TimeLimit]]:
        """Handle a request or session in this context. Yields a function that ends it with an error after some seconds.

        An exception from inside, or the error that ends the request from outside, goes to `fail`; a disconnection is
        ignored. Afterwards the request is closed and no longer in flight.
        """
        limits: list[TimeLimit] = []

        def end_after(error: ApiError, seconds: float) -> TimeLimit:
            limits.append(TimeLimit(seconds, partial(context.end_with, error)))
            return limits[-1]

        try:
            yield end_after
        except (ClientDisconnectedError, ClientDisconnected, WebSocketDisconnect):
            pass
        except asyncio.CancelledError:
            if context.ending is None or context.task is None:
                raise
            context.task.uncancel()
            context.is_over = True
            await fail(context.ending)
        except Exception as error:
            context.is_over = True
            await fail(error)
        finally:
            for limit in limits:
                limit.cancel()
            context.close()
            self.requests.remove(context)

    def key_in_headers(self, scope: Scope) -> int | None:
        """Return the number of the key in `Authorization` or `X-Api-Key`, or None without a valid one."""
        keys = self.rules.keys
        if keys is None:
            return None
        found = keys.find(first_header(scope, b"authorization"))
        return keys.find_bare(first_header(scope, b"x-api-key")) if found is None else found

    def check_draining(self) -> None:
        if self._is_draining():
            raise unavailable("the server is shutting down", "shutting_down")

    def check_number(self, context: RequestContext) -> None:
        """Raise 429 if the key has its maximum of requests in flight."""
        rules = self.rules
        running = self.requests.count_of_key(context.key)
        if rules.keys is not None and rules.per_key is not None and running >= rules.per_key:
            message = f"this key has {counted(running, 'request')} in flight; at most {rules.per_key} are allowed"
            raise too_many(message, "too_many_requests")


def too_many(message: str, code: str) -> ApiError:
    return ApiError(429, message, code=code, kind="overloaded_error", headers={"retry-after": "1"})


def first_header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


def request_id(scope: Scope) -> str:
    """Return the client's request id if it is short and printable, otherwise a new one."""
    given = first_header(scope, b"x-request-id")
    return given.decode() if given is not None and REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
