"""The socket that a server listens on."""

from __future__ import annotations

import socket

from antiphon.errors import InvalidRequestError


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address; an address that cannot be used is an error that names it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidRequestError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return listener


def address(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
