"""Socket that a server listens on."""

from __future__ import annotations

import contextlib
import resource
import socket

from antiphon.errors import InvalidRequestError

#: Files that a server has open besides its connections.
OTHER_FILES = 512


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
