"""`CanonicalRequests`: middleware that rewrites paths without `/v1`, and HEAD requests."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.server.web.middleware.route_table import RouteTable


class CanonicalRequests:
    """Middleware that completes paths without `/v1`, and answers HEAD with the status and headers of GET."""

    def __init__(self, app: ASGIApp, routes: RouteTable) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = self._routes.canonical(scope["path"])
        if path != scope["path"]:
            scope = {**scope, "path": path, "raw_path": b"/v1" + scope.get("raw_path", scope["path"].encode())}
        if scope["type"] == "websocket" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
