"""Routers of Ollama's API."""

from __future__ import annotations

from antiphon.server.apis.ollama import chat, embed, generate, models, pull

ROUTERS = (chat.router, generate.router, embed.router, models.router, pull.router)
