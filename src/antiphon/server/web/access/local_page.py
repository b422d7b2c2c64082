"""`check_local_page`: the check that a request comes from this server's page in a browser on this machine.

Any program can send such a request: the check stops browsers with hostile pages, and proxies that name themselves.
"""

from __future__ import annotations

from starlette.types import Scope

from antiphon.server.web.access.hosts import is_loopback, is_loopback_host
from antiphon.server.web.http.errors import ApiError

#: Headers that proxies add; a browser sends none of them.
PROXY_HEADERS = frozenset(
    (b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip", b"cf-connecting-ip")
)
PROXY_PREFIXES = (b"x-forwarded", b"x-original-")
#: Values of `Sec-Fetch-Site` for the server's own pages and for addresses that the user typed.
OWN_SITES = ("same-origin", "none")


def check_local_page(scope: Scope, takes_names: bool = True) -> None:
    """Raise `ApiError` unless the peer, Host, Origin and Sec-Fetch-Site are local, and no proxy is in between.

    Without `takes_names`, Host must be an address: another program can serve pages as `localhost` at the same port.
    """
    proxy = next(
        (name for name, _ in scope["headers"] if name in PROXY_HEADERS or name.startswith(PROXY_PREFIXES)), b""
    )
    if proxy:
        raise refused("proxied", f"the request came through a proxy, which sent the header {proxy.decode('latin-1')!r}")
    if scope["http_version"] != "1.1":
        raise refused("proxied", f"the request is HTTP/{scope['http_version']}, which browsers do not send here")
    peer = scope.get("client")
    if peer is None or not is_loopback(peer[0]):
        raise refused("not_local", "it is given only to browsers on the server's own machine")
    host = _only(scope, b"host")
    if host is None or not is_loopback_host(host):
        raise refused("invalid_host", f"the Host is {_shown(host)}, which is not a loopback name such as localhost")
    if not takes_names and not is_loopback_host(host, takes_names=False):
        cause = "another program uses the same port of localhost; open the page by the address that the server printed"
        raise refused("invalid_host", f"the Host is {_shown(host)}, and {cause}")
    origin = _only(scope, b"origin")
    if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
        raise refused("invalid_origin", f"the Origin is {_shown(origin)}, which is not this server's own")
    site = _only(scope, b"sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        raise refused("cross_site", f"the Sec-Fetch-Site is {_shown(site)}: a page of another site sent the request")


def refused(code: str, cause: str) -> ApiError:
    """Return the error for a page that does not get the admin key."""
    return ApiError(403, f"the admin key is not given: {cause}", code=code)


def _only(scope: Scope, name: bytes) -> str | None:
    """Return the header's value, or None without the header. Repeated headers are joined, so that no check accepts."""
    values = [value for key, value in scope["headers"] if key == name]
    return b", ".join(values).decode("latin-1") if values else None


def _shown(value: str | None) -> str:
    return "missing" if value is None else repr(value[:200])
