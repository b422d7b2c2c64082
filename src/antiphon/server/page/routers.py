"""Routers of the web page."""

from __future__ import annotations

from antiphon.server.page import docs_page, route, ticket

ROUTERS = (docs_page.router, ticket.router, route.router)
