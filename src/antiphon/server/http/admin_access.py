"""Access to `/admin`: an admin key is needed, and Host, Origin and content type are checked against hostile web pages.

A page of another site can make a browser send requests here (CSRF), also under a name that it pointed at this machine
(DNS rebinding). The browser then names the page in `Origin`, or that name in `Host`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from antiphon.server.http.errors import ApiError, unauthorized
from antiphon.server.http.hosts import is_loopback
from antiphon.server.http.keys import KeyRing

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


class AdminAccess:
    """`host` is the address that the server listens on, `names` are other names that clients may use for it."""

    def __init__(self, keys: KeyRing | None, host: str, names: Iterable[str] = ()) -> None:
        self._keys = keys
        self._is_local = is_loopback(host)
        own = () if self._is_local else (socket.gethostname(),)
        self._names = {name.rstrip(".").lower() for name in (host, *own, *names)}

    def check(self, scope: Scope) -> None:
        """Raise unless the request may administer the server."""
        if self._keys is None:
            message = "administration is off: start the server on a loopback address or with --admin-key-file"
            raise ApiError(403, message, code="admin_disabled")
        host = _header(scope, b"host")
        self._check_host(host)
        _check_origin(_header(scope, b"origin"), host)
        if self._keys.find(_header(scope, b"authorization").encode("latin-1")) is None:
            raise unauthorized("the admin key is missing or wrong")
        if scope["method"] in ("POST", "PUT", "PATCH"):
            _check_content_type(_header(scope, b"content-type"))

    def _check_host(self, host: str) -> None:
        """Ports are not compared, since a forwarded port differs. An address cannot be rebound, unlike a name."""
        name = _host_name(host)
        if name in self._names or is_loopback(name) or (not self._is_local and _is_address(name)):
            return
        message = f"the Host is {host[:200]!r}, which is not a name of this server; allow it with --admin-host"
        raise ApiError(403, message, code="invalid_host")


def _check_origin(origin: str, host: str) -> None:
    try:
        is_own = not origin or urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        is_own = False
    if not is_own:
        message = f"the Origin is {origin[:200]!r}; /admin accepts requests only from pages of this server"
        raise ApiError(403, message, code="invalid_origin")


def _check_content_type(given: str) -> None:
    """Browsers send JSON to another site only after a preflight request; they send forms without one."""
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"the content type is {kind[:80] or 'missing'!r}; it must be application/json"
        raise ApiError(415, message, code="unsupported_media_type")


def _host_name(host: str) -> str:
    """The host without its port; empty if it is not valid."""
    found = HOST.fullmatch(host)
    return "" if found is None else found[1].strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _header(scope: Scope, name: bytes) -> str:
    """The header's value, or an empty string. Several headers are joined, so that no check accepts them."""
    values = [value for key, value in scope["headers"] if key == name]
    return b",".join(values).decode("latin-1")
