"""Access to `/admin`: requires an admin key, and checks Host, Origin and content type against hostile web pages.

A page of another site can make a browser send requests here (CSRF), also under a name that it pointed at this machine
(DNS rebinding). The browser then names the page in `Origin`, or that name in `Host`.
"""

from __future__ import annotations

from starlette.types import Scope

from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.access.origins import is_own_origin
from antiphon.server.web.http.errors import ApiError, unauthorized


class AdminAccess:
    """Check of admin keys and request headers. `hosts` are the names of the server."""

    def __init__(self, keys: KeyRing | None, hosts: AllowedHosts) -> None:
        self._keys = keys
        self._hosts = hosts

    def check(self, scope: Scope) -> None:
        """Raise unless the request may administer the server."""
        if self._keys is None:
            message = "administration is off: start the server on a loopback address or with --admin-key-file"
            raise ApiError(403, message, code="admin_disabled")
        self.check_page(scope)
        if self._keys.find(header(scope, b"authorization").encode("latin-1")) is None:
            raise unauthorized("the admin key is missing or wrong")
        if scope["method"] in ("POST", "PUT", "PATCH"):
            _check_content_type(header(scope, b"content-type"))

    def check_page(self, scope: Scope) -> None:
        """Raise if a page of another site sent the request."""
        host = header(scope, b"host")
        self._hosts.check(host)
        _check_origin(header(scope, b"origin"), host)


def _check_origin(origin: str, host: str) -> None:
    is_own = not origin or is_own_origin(origin, host)
    if not is_own:
        message = f"the Origin is {origin[:200]!r}; administration accepts requests only from pages of this server"
        raise ApiError(403, message, code="invalid_origin")


def _check_content_type(given: str) -> None:
    """Raise unless the type is JSON: browsers ask before they send it to another site, which they do not for forms."""
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"the content type is {kind[:80] or 'missing'!r}; it must be application/json"
        raise ApiError(415, message, code="unsupported_media_type")


def header(scope: Scope, name: bytes) -> str:
    """Return the header's value, or an empty string. Repeated headers are joined, so that no check accepts them."""
    values = [value for key, value in scope["headers"] if key == name]
    return b",".join(values).decode("latin-1")
