"""The routes of the page in the browser."""

from __future__ import annotations

from antiphon.server.page import docs_page, route, ticket

ROUTERS = (docs_page.router, ticket.router, route.router)
