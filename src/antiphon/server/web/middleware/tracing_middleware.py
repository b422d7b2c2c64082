"""`TracedRequests`: middleware that records a trace span for each request and each WebSocket."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.server.web.telemetry.tracing import Tracing

UNTRACED_ROUTES = {"/livez", "/readyz", "/metrics"}
#: Messages that begin a response, or accept or refuse a WebSocket.
BEGINNINGS = {"http.response.start", "websocket.accept", "websocket.http.response.start"}
SWITCHING_PROTOCOLS = 101
CARRIED = (b"traceparent", b"tracestate")
#: OpenTelemetry's names by field of a request's log line.
ATTRIBUTES = {
    "model": "gen_ai.request.model",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "antiphon.usage.cached_tokens",
    "drafted_tokens": "antiphon.usage.drafted_tokens",
    "accepted_tokens": "antiphon.usage.accepted_tokens",
    "code": "error.type",
}


class TracedRequests:
    """Middleware whose spans are children of the request's `traceparent`. The response has the span's `traceparent`."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in UNTRACED_ROUTES:
            await self._app(scope, receive, send)
            return

        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()
        given = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CARRIED}
        method = scope.get("method", "WEBSOCKET")
        tracer = self._tracing.tracer
        with tracer.start_as_current_span(method, propagator.extract(given), kind=SpanKind.SERVER) as span:
            carried: dict[str, str] = {}
            propagator.inject(carried)

            async def send_traced(message: Message) -> None:
                if message["type"] in BEGINNINGS:
                    status = message.get("status", SWITCHING_PROTOCOLS)
                    span.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        span.set_status(StatusCode.ERROR)
                    own = (b"traceparent", carried["traceparent"].encode())
                    message["headers"] = [*message.get("headers", ()), own]
                await send(message)

            try:
                await self._app(scope, receive, send_traced)
            finally:
                route = getattr(scope.get("route"), "path", "other")
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.request.method": method, "http.route": route})
                context = scope.get("context")
                if context is not None:
                    span.set_attribute("antiphon.request_id", context.request_id)
                    log_fields = context.log_fields
                    span.set_attributes(
                        {ATTRIBUTES[name]: log_fields[name] for name in ATTRIBUTES if name in log_fields}
                    )
