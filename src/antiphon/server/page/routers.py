"""Routers of the web page."""

from __future__ import annotations

from antiphon.server.page import admin_key, docs_page, route

ROUTERS = (docs_page.router, admin_key.router, route.router)
