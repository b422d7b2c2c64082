"""Routers of the web page."""

from __future__ import annotations

from antiphon.server.page import docs_page, models, route, ticket

ROUTERS = (docs_page.router, ticket.router, models.router, route.router)
