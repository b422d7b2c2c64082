"""The gate every request passes: id, key, limits, draining, errors in OpenAI's shape, log and metrics."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.counted import counted
from antiphon.errors import AntiphonError
from antiphon.server.http.admin_access import NEEDS_BEARER, AdminAccess
from antiphon.server.http.bodies import ClientGoneError
from antiphon.server.http.context import Passage, Passages, current_passage
from antiphon.server.http.errors import SERVER, ApiError, api_error, unavailable
from antiphon.server.http.keys import KeyRing
from antiphon.server.telemetry.logs import log, log_failure
from antiphon.server.telemetry.metrics import Metrics

REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
OPEN_ROUTES = {"/livez", "/readyz"}
UNLOGGED_ROUTES = {*OPEN_ROUTES, "/metrics"}  # asked every few seconds by machines
ADMIN = "/admin"
#: A generation's own deadline comes first, since it can tell how far it came.
SLACK_SECONDS = 2.0


@dataclass(frozen=True)
class Rules:
    """Whom the gate lets in, and for how long. `per_key` bounds the requests of one key at once."""

    admin: AdminAccess
    keys: KeyRing | None = None
    per_key: int | None = None
    request_seconds: float = 600.0
    logs_text: bool = False


class Gate:
    """ASGI middleware. An error raised before the answer began becomes its body; one raised later ends the stream."""

    def __init__(
        self, app: ASGIApp, rules: Rules, passages: Passages, metrics: Metrics, is_draining: Callable[[], bool]
    ) -> None:
        self._app = app
        self._rules = rules
        self._passages = passages
        self._metrics = metrics
        self._is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = Passage(_request_id(scope), scope["method"], scope["path"], logs_text=self._rules.logs_text)
        scope["passage"] = passage

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                passage.status, passage.has_begun = message["status"], True
                headers = message["headers"]
                passage.is_event_stream = any(value.startswith(b"text/event-stream") for _, value in headers)
                message["headers"] = [*headers, (b"x-request-id", passage.request_id.encode())]
            await send(message)

        entered = current_passage.set(passage)
        try:
            await self._pass(scope, receive, send_marked, passage)
        finally:
            current_passage.reset(entered)
            self._tell(scope, passage)

    async def _pass(self, scope: Scope, receive: Receive, send: Send, passage: Passage) -> None:
        alarm: asyncio.TimerHandle | None = None
        try:
            self._check(scope, passage)
            if passage.path not in OPEN_ROUTES:
                self._passages.enter(passage)
                alarm = self._set_alarm(passage)
            await self._app(scope, receive, send)
        except ClientGoneError:
            pass
        except asyncio.CancelledError:
            if passage.ending is None or passage.task is None:
                raise
            passage.task.uncancel()
            passage.is_over = True
            await self._fail(passage, passage.ending, send)
        except Exception as error:
            passage.is_over = True
            await self._fail(passage, error, send)
        finally:
            if alarm is not None:
                alarm.cancel()
            passage.close()
            self._passages.leave(passage)

    def _set_alarm(self, passage: Passage) -> asyncio.TimerHandle | None:
        if _is_admin(passage.path):
            return None
        limit = self._rules.request_seconds
        error = ApiError(504, f"the request took longer than {limit:g} s", code="timeout", kind=SERVER)
        return asyncio.get_running_loop().call_later(limit + SLACK_SECONDS, passage.end_with, error)

    def _check(self, scope: Scope, passage: Passage) -> None:
        if passage.path in OPEN_ROUTES:
            return
        if _is_admin(passage.path):
            self._rules.admin.check(scope)
            return
        authorization = _header(scope, b"authorization")
        rules = self._rules
        if rules.keys is not None:
            passage.key = rules.keys.find(authorization)
            if passage.key is None:
                message = "the API key is missing or wrong"
                raise ApiError(401, message, code="invalid_api_key", headers=NEEDS_BEARER)
        if self._is_draining():
            raise unavailable("the server is shutting down", "shutting_down")
        running = self._passages.of_key(passage.key)
        if rules.keys is not None and rules.per_key is not None and running >= rules.per_key:
            message = f"this key has {counted(running, 'request')} in flight; at most {rules.per_key} are allowed"
            headers = {"retry-after": "1"}
            raise ApiError(429, message, code="too_many_requests", kind="overloaded_error", headers=headers)

    async def _fail(self, passage: Passage, error: Exception, send: Send) -> None:
        answer = _answer(error)
        if answer.status == 500 and not isinstance(error, ApiError | AntiphonError):
            log_failure(error, request_id=passage.request_id)
        passage.figures["code"] = answer.code
        body = orjson.dumps(answer.body())
        if passage.has_begun:
            if passage.is_event_stream:  # of anything else the connection is cut, so that a part is not taken for all
                await send({"type": "http.response.body", "body": b"data: " + body + b"\n\n", "more_body": False})
            return
        headers = [(b"content-type", b"application/json")]
        headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _tell(self, scope: Scope, passage: Passage) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.answered(route, passage.status)
        if route in UNLOGGED_ROUTES:
            return
        log(
            "request",
            request_id=passage.request_id,
            method=passage.method,
            route=route,
            status=passage.status,
            seconds=round(time.perf_counter() - passage.started, 4),
            **passage.figures,
        )


def _is_admin(path: str) -> bool:
    return path == ADMIN or path.startswith(ADMIN + "/")


def _answer(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, AntiphonError):
        return api_error(error)
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        return ApiError(error.status_code, str(error.detail), code=code, headers=error.headers)
    return ApiError(500, f"an internal error occurred ({type(error).__name__})", code="internal_error", kind=SERVER)


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


def _request_id(scope: Scope) -> str:
    """The client's own id if it is short and printable, else a new one."""
    given = _header(scope, b"x-request-id")
    return given.decode() if given is not None and REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
