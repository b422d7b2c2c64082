"""The gate every request passes: a request id, the API key, draining, errors in OpenAI's shape, log and metrics."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.server.body import ClientGoneError
from antiphon.server.errors import SERVER, ApiError, api_error, unavailable
from antiphon.server.keys import KeyRing
from antiphon.server.logs import log, log_failure
from antiphon.server.metrics import Metrics

REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
OPEN_ROUTES = {"/livez", "/readyz"}
UNLOGGED_ROUTES = {*OPEN_ROUTES, "/metrics"}  # asked every few seconds by machines
CLIENT_GONE = 499


@dataclass
class Passage:
    """What is known of one request, for its log line. It holds no text that a client sent."""

    request_id: str
    started: float = field(default_factory=time.perf_counter)
    status: int = CLIENT_GONE
    has_begun: bool = False
    figures: dict[str, Any] = field(default_factory=dict)


class Gate:
    """ASGI middleware. An error raised before the answer began becomes its body; one raised later ends the stream."""

    def __init__(self, app: ASGIApp, keys: KeyRing | None, metrics: Metrics, is_draining: Callable[[], bool]) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics
        self._is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = Passage(_request_id(scope))
        scope["passage"] = passage

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                passage.status, passage.has_begun = message["status"], True
                message["headers"] = [*message["headers"], (b"x-request-id", passage.request_id.encode())]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_marked)
        except ClientGoneError:
            pass
        except Exception as error:
            await self._fail(passage, error, send_marked)
        finally:
            self._tell(scope, passage)

    def _check(self, scope: Scope) -> None:
        if scope["path"] in OPEN_ROUTES:
            return
        if self._keys is not None and not self._keys.opens(_header(scope, b"authorization")):
            headers = {"www-authenticate": "Bearer"}
            raise ApiError(401, "the API key is missing or wrong", code="invalid_api_key", headers=headers)
        if self._is_draining():
            raise unavailable("the server is shutting down", "shutting_down")

    async def _fail(self, passage: Passage, error: Exception, send: Send) -> None:
        answer = _answer(error)
        if answer.status == 500 and not isinstance(error, ApiError | AntiphonError):
            log_failure(error, request_id=passage.request_id)
        passage.figures["code"] = answer.code
        if passage.has_begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        headers = [(b"content-type", b"application/json")]
        headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        body = orjson.dumps(answer.body())
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
            method=scope["method"],
            route=route,
            status=passage.status,
            seconds=round(time.perf_counter() - passage.started, 4),
            **passage.figures,
        )


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
