"""Socket that a server listens on."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
from collections.abc import Iterator

from antiphon.errors import InvalidRequestError

#: Files that a server has open besides its connections.
OTHER_FILES = 512
#: Addresses to which browsers resolve `localhost` and names below it, by family.
LOCALHOST = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address, or raise an error that names an unusable address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidRequestError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return listener


@contextlib.contextmanager
def held_localhost(listener: socket.socket) -> Iterator[bool]:
    """Keep other programs from listening at the listener's port on the other addresses of `localhost`.

    A browser tries both addresses, so another user's program there could serve pages that count as this server's own.
    Yields False if another program has taken an address already.
    """
    own, port = listener.getsockname()[:2]
    is_held = True
    with contextlib.ExitStack() as held:
        for family, host in LOCALHOST.items():
            if host == own:
                continue
            try:
                held.enter_context(socket.socket(family, socket.SOCK_STREAM)).bind((host, port))
            except OSError as error:  # another error: the machine has no such address, so nobody can listen there
                is_held = is_held and error.errno != errno.EADDRINUSE
        yield is_held


def raise_file_limit(num_connections: int) -> None:
    """Raise the limit of open files for this many connections, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = num_connections + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def address(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
