"""Check of `Origin`, in which a browser names the page that sends a request.

A page of another site can send a form to this server, or open a WebSocket: unlike for JSON, the browser asks no
permission first (CSRF).
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from antiphon.server.web.http.errors import ApiError


def is_own_origin(origin: str, host: str) -> bool:
    """Return whether the page belongs to the server that `Host` names."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def check_form_origin(content_type: str, origin: str, host: str, allowed: Collection[str]) -> None:
    """Raise for a form with a file from a page of another site, unless its origin is allowed."""
    if not origin or content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        return
    _check(origin, host, allowed, "forms")


def check_socket_origin(origin: str, host: str, allowed: Collection[str]) -> None:
    """Raise for a WebSocket from a page of another site, unless its origin is allowed. Programs send no origin."""
    if origin:
        _check(origin, host, allowed, "WebSockets")


def _check(origin: str, host: str, allowed: Collection[str], what: str) -> None:
    if not ({origin, "*"} & set(allowed) or is_own_origin(origin, host)):
        message = f"the Origin is {origin[:200]!r}; {what} are accepted from pages of this server and of --cors-origin"
        raise ApiError(403, message, code="invalid_origin")
