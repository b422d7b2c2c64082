"""Host names and addresses, and `AllowedHosts`: the check of `Host` against DNS rebinding.

A page can point a name of its own at this machine (DNS rebinding), and the browser then lets it read what a server
here responds. The browser sends that name in `Host`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from antiphon.server.web.http.errors import ApiError

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
#: Domains outside the public DNS, in which no page can have a name.
PRIVATE_DOMAINS = (".localhost", ".local", ".internal", ".home.arpa")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address always refers to this machine."""
    name = host.rstrip(".").lower().strip("[]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback_host(host: str, takes_names: bool = True) -> bool:
    """Return whether a `Host` header always refers to this machine, by an address or, with `takes_names`, by a name."""
    name = _host_name(host)
    return is_loopback(name) and (takes_names or _is_address(name))


class AllowedHosts:
    """Names of a server. `host` is the address it listens on; `names` are further names, where `*` allows any.

    A server on a loopback address has the loopback names and the machine's own. Any other server can also be reached
    by an address, a name without a dot, or a name in a private domain, none of which a page can point at it.
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        self._is_local = is_loopback(host)
        self._names = {name.rstrip(".").lower() for name in (host, socket.gethostname(), *names)}

    def check(self, host: str) -> None:
        """Raise unless `Host` is a name of this server. Ports are not compared: a forwarded port differs."""
        name = _host_name(host)
        if "*" in self._names or name in self._names or is_loopback(name):
            return
        if not self._is_local and name and (_is_address(name) or "." not in name or name.endswith(PRIVATE_DOMAINS)):
            return
        message = f"the Host is {host[:200]!r}, which is not a name of this server; allow it with --allowed-host"
        raise ApiError(403, message, code="invalid_host")


def _host_name(host: str) -> str:
    """Return the host in lower case without its port, or an empty string if it is invalid."""
    found = HOST.fullmatch(host)
    return "" if found is None else found[1].strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
