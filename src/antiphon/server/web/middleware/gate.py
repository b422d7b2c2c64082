"""`Gate`: middleware for every request: id, API key, limits, draining, error responses, log line and metrics."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.server.web.access.admin_access import header
from antiphon.server.web.access.origins import check_form_origin
from antiphon.server.web.http.context import RequestContext, current_context
from antiphon.server.web.http.error_formats import error_format
from antiphon.server.web.http.errors import (
    SERVER,
    ApiError,
    api_error,
    unauthorized,
)
from antiphon.server.web.http.ignored_fields import HEADER as IGNORED_HEADER
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Admission, Rules, request_id
from antiphon.server.web.middleware.internal_call import CALLER, Caller
from antiphon.server.web.telemetry.logs import log, log_failure
from antiphon.server.web.telemetry.metrics import Metrics

OPEN_ROUTES = {"/livez", "/readyz", "/health", "/ping", "/docs", "/"}
#: Folder of the web page's files, which contain no user's data, and of the route that gives it an admin key.
PAGE = "/page/"
#: Routes that are polled every few seconds, or requested many at once.
UNLOGGED_ROUTES = {*OPEN_ROUTES, "/metrics", "/page/status", "/page/{path:path}"}
#: Routes without a time limit: a download has limits of its own.
UNTIMED_ROUTES = {"/api/pull"}
ADMIN = "/admin"
#: Content types of streams that can end with an error.
EVENT_STREAMS = (b"text/event-stream", b"application/x-ndjson")
MODELS = "/v1/models/"
#: Seconds added to the limit, so that a generation reaches its own deadline first: its error reports the progress.
SLACK_SECONDS = 2.0


class Gate:
    """Middleware that turns errors into responses; after the response has begun, an error ends the stream."""

    def __init__(
        self, app: ASGIApp, rules: Rules, requests: ActiveRequests, metrics: Metrics, is_draining: Callable[[], bool]
    ) -> None:
        self._app = app
        self._rules = rules
        self._metrics = metrics
        self._admission = Admission(rules, requests, is_draining)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(request_id(scope), scope["method"], scope["path"], logs_text=self._rules.logs_text)
        context.is_strict = self._rules.is_strict or _is_admin(context)
        context.error_format = error_format(context.path, dict(scope["headers"]))
        scope["context"] = context
        context.send_part = send

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status, context.has_begun = message["status"], True
                headers = message["headers"]
                context.is_event_stream = any(value.startswith(EVENT_STREAMS) for _, value in headers)
                names = ("x-request-id", context.error_format.id_header)
                ids = [(name.encode(), context.request_id.encode()) for name in names if name is not None]
                message["headers"] = [*headers, *ids]
                if context.ignored:
                    message["headers"].append((IGNORED_HEADER.encode(), context.ignored.header().encode()))
            await send(message)

        token = current_context.set(context)
        try:
            await self._handle(scope, receive, send_with_id, context)
        finally:
            current_context.reset(token)
            self._report(scope, context)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, context: RequestContext) -> None:
        async with self._admission.handling(context, lambda error: self._fail(context, error, send)) as end_after:
            self._check(scope, context)
            if not _is_open(context):
                self._admission.requests.add(context)
                if not _is_admin(context) and context.path not in UNTIMED_ROUTES:
                    limit = self._rules.request_seconds
                    message = f"the request took longer than {limit:g} s"
                    error = ApiError(504, message, code="timeout", kind=SERVER)
                    context.limit = end_after(error, limit + SLACK_SECONDS)
            await self._app(scope, receive, send)

    def _check(self, scope: Scope, context: RequestContext) -> None:
        if _is_open(context):
            return
        if _is_admin(context):
            self._rules.admin.check(scope)
            return
        rules = self._rules
        caller: Caller | None = scope.get(CALLER)
        if caller is not None:
            context.key, context.is_low_priority = caller.key, caller.is_low_priority
        elif rules.keys is not None:
            context.key = self._admission.key_in_headers(scope)
            if context.key is None:
                raise unauthorized("the API key is missing or wrong")
        else:
            host = header(scope, b"host")
            rules.hosts.check(host)
            check_form_origin(header(scope, b"content-type"), header(scope, b"origin"), host, rules.origins)
        self._admission.check_draining()
        if context.is_low_priority:  # the batches' lane limits their number
            return
        if caller is not None and caller.background_id is not None:  # checked when the background work began
            return
        self._admission.check_number(context)

    async def _fail(self, context: RequestContext, error: Exception, send: Send) -> None:
        response = error_response(error)
        if context.on_failure is not None:
            context.on_failure(response)
        if response.status == 500 and not isinstance(error, ApiError | AntiphonError):
            log_failure(error, request_id=context.request_id)
        context.log_fields["code"] = response.code
        if context.has_begun:
            if context.is_event_stream:  # other bodies are cut off, so that they do not seem complete
                last = context.error_format.event(response, context.request_id)
                await send({"type": "http.response.body", "body": last, "more_body": False})
            return
        body = orjson.dumps(context.error_format.body(response, context.request_id))
        headers = [(b"content-type", b"application/json")]
        headers += [(name.encode(), value.encode()) for name, value in response.headers.items()]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _report(self, scope: Scope, context: RequestContext) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.answered(route, context.status)
        if route in UNLOGGED_ROUTES:
            return
        log(
            "request",
            request_id=context.request_id,
            method=context.method,
            route=route,
            status=context.status,
            seconds=round(context.seconds, 4),
            **context.log_fields,
        )


def _is_open(context: RequestContext) -> bool:
    return context.path in OPEN_ROUTES or context.path.startswith(PAGE)


def _is_admin(context: RequestContext) -> bool:
    """Return whether the request needs an admin key: for `/admin`, and for deleting a model, which unloads it."""
    path = context.path
    return path == ADMIN or path.startswith(ADMIN + "/") or (context.method == "DELETE" and path.startswith(MODELS))


def error_response(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, AntiphonError):
        return api_error(error)
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        return ApiError(error.status_code, str(error.detail), code=code, headers=error.headers)
    return ApiError(500, f"an internal error occurred ({type(error).__name__})", code="internal_error", kind=SERVER)
