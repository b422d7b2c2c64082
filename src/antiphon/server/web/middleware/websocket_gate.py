"""`WebSocketGate`: middleware for every WebSocket, as `Gate` is for requests.

A handshake that is refused gets a status and an error body like any request. A session is in flight until it ends:
it counts for its key, and a shutdown waits for it. The time limit of requests does not apply to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from antiphon.errors import AntiphonError
from antiphon.server.web.access.admin_access import header
from antiphon.server.web.access.client_secrets import is_client_secret
from antiphon.server.web.access.origins import check_socket_origin
from antiphon.server.web.http.context import CLIENT_CLOSED_REQUEST, RequestContext, current_context
from antiphon.server.web.http.error_formats import error_format
from antiphon.server.web.http.errors import SERVER, ApiError, unauthorized
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Admission, Rules, first_header, request_id, too_many
from antiphon.server.web.middleware.gate import error_response
from antiphon.server.web.telemetry.logs import log, log_failure
from antiphon.server.web.telemetry.metrics import Metrics

SWITCHING_PROTOCOLS = 101
#: Prefix of the subprotocol in which browsers send a key, since they cannot set headers of a WebSocket.
KEY_PROTOCOL = "openai-insecure-api-key."
#: Close codes: internal error, server restart, and violated policy.
INTERNAL_ERROR, SERVICE_RESTART, POLICY = 1011, 1012, 1008
CLOSE_CODES = {
    "shutting_down": SERVICE_RESTART,
    "session_expired": POLICY,
    "session_idle": POLICY,
    "client_too_slow": POLICY,
}
#: Maximum seconds to send the last message to a session that is closed for an error.
LAST_MESSAGE_SECONDS = 0.5


class WebSocketGate:
    """Middleware that answers errors before the handshake is accepted; later, an error closes the session."""

    def __init__(
        self, app: ASGIApp, rules: Rules, requests: ActiveRequests, metrics: Metrics, is_draining: Callable[[], bool]
    ) -> None:
        self._app = app
        self._rules = rules
        self._admission = Admission(rules, requests, is_draining)
        self._metrics = metrics
        self._num_open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        context = RequestContext(request_id(scope), "WEBSOCKET", scope["path"], logs_text=self._rules.logs_text)
        context.is_strict = self._rules.is_strict
        context.error_format = error_format(context.path, dict(scope["headers"]))
        scope["context"] = context

        async def send_watched(message: Message) -> None:
            kind = message["type"]
            if kind == "websocket.accept":
                context.has_begun, context.status = True, SWITCHING_PROTOCOLS
                message["headers"] = [*message.get("headers", []), (b"x-request-id", context.request_id.encode())]
            elif kind == "websocket.close" and not context.has_begun:  # the router's response to an unknown path
                path = context.path[:200]
                raise ApiError(404, f"there is no WebSocket at {path}; there is one at /v1/realtime", code="not_found")
            await send(message)

        token = current_context.set(context)
        try:
            await self._handle(scope, receive, send_watched, send, context)
        finally:
            current_context.reset(token)
            self._report(scope, context)

    async def _handle(
        self, scope: Scope, receive: Receive, send_watched: Send, send: Send, context: RequestContext
    ) -> None:
        is_admitted = False
        try:
            async with self._admission.handling(context, lambda error: self._fail(context, error, send)) as end_after:
                self._check(scope, context)
                self._admission.requests.add(context)
                is_admitted = True
                self._num_open += 1
                self._metrics.voice.session_opened()
                seconds = self._rules.sessions.seconds
                message = f"the session has lasted {seconds:g} s, which is the longest that this server allows"
                end_after(ApiError(408, message, code="session_expired"), seconds)
                await self._app(scope, receive, send_watched)
        finally:
            if is_admitted:
                self._num_open -= 1
                self._metrics.voice.session_closed()

    def _check(self, scope: Scope, context: RequestContext) -> None:
        rules = self._rules
        host = header(scope, b"host")
        bare = bearer(scope) or key_in_protocols(scope["subprotocols"])
        if rules.keys is not None:
            context.key = self._admission.key_in_headers(scope)
            if context.key is None:
                context.key = rules.keys.find_bare(bare)
        else:
            rules.hosts.check(host)
        if context.key is None and is_client_secret(bare):
            secret = rules.client_secrets.find(bare)
            if secret is None:
                raise unauthorized("the client secret is wrong or has expired")
            context.key, context.secret_session = secret.key, secret.session
        elif context.key is None and rules.keys is not None:
            raise unauthorized("the API key is missing or wrong")
        check_socket_origin(header(scope, b"origin"), host, rules.origins)
        self._admission.check_draining()
        self._admission.check_number(context)
        if self._num_open >= rules.sessions.sessions:
            message = f"the server has {self._num_open:,} sessions, which is its limit (--max-sessions)"
            raise too_many(message, "too_many_sessions")

    async def _fail(self, context: RequestContext, error: Exception, send: Send) -> None:
        response = error_response(error)
        if response.status == 500 and not isinstance(error, ApiError | AntiphonError):
            log_failure(error, request_id=context.request_id)
        context.log_fields["code"] = response.code
        try:
            if context.has_begun:
                await self._close(context, response, send)
            else:
                await _refuse(context, response, send)
        except ClientDisconnected:
            if not context.has_begun:
                context.status = CLIENT_CLOSED_REQUEST

    async def _close(self, context: RequestContext, error: ApiError, send: Send) -> None:
        if context.last_message is not None:
            with contextlib.suppress(TimeoutError):  # the client does not read
                async with asyncio.timeout(LAST_MESSAGE_SECONDS):
                    await send({"type": "websocket.send", "text": context.last_message(error)})
        code = CLOSE_CODES.get(error.code, INTERNAL_ERROR if error.kind == SERVER else POLICY)
        await send({"type": "websocket.close", "code": code, "reason": error.code})

    def _report(self, scope: Scope, context: RequestContext) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.answered(route, context.status)
        log(
            "request",
            request_id=context.request_id,
            method=context.method,
            route=route,
            status=context.status,
            seconds=round(context.seconds, 4),
            **context.log_fields,
        )


def bearer(scope: Scope) -> bytes | None:
    """Return the key in the header `Authorization`, or None."""
    scheme, _, key = (first_header(scope, b"authorization") or b"").partition(b" ")
    return key if scheme.lower() == b"bearer" else None


def key_in_protocols(offered: list[str]) -> bytes | None:
    """Return the key that a browser sends as one of its offered subprotocols, or None."""
    found = (name.removeprefix(KEY_PROTOCOL) for name in offered if name.startswith(KEY_PROTOCOL))
    return next((key.encode("latin-1", "replace") for key in found), None)


async def _refuse(context: RequestContext, error: ApiError, send: Send) -> None:
    context.status = error.status
    body = orjson.dumps(context.error_format.body(error, context.request_id))
    named = {"content-type": "application/json", "x-request-id": context.request_id, **error.headers}
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
