"""Routers of Anthropic's API."""

from __future__ import annotations

from antiphon.server.apis.anthropic import messages
from antiphon.server.apis.anthropic.batches import route as batches

ROUTERS = (messages.router, batches.router)
