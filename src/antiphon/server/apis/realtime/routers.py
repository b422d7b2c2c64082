"""Routers of the Realtime API."""

from __future__ import annotations

from antiphon.server.apis.realtime import client_secrets, route

ROUTERS = (route.router, client_secrets.router)
