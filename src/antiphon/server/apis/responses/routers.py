"""Routers of the Responses API and its conversations."""

from __future__ import annotations

from antiphon.server.apis.responses import compact, conversations, create, input_tokens, stored

ROUTERS = (create.router, input_tokens.router, compact.router, stored.router, conversations.router)
