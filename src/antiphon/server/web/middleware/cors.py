"""`ApiCors`: middleware that lets pages of configured origins read the answers of the API, but nothing of the page."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from antiphon.server.web.middleware.gate import PAGE


class ApiCors(CORSMiddleware):
    """CORS for all routes but those of the web page, which gives an admin key to pages of this server alone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PAGE):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
