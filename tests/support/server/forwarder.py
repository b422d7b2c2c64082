"""Forwarder of TCP connections on this machine: a proxy that may add a header, and may belong to another user.

As a program it forwards as the user whose id it is given: `python forwarder.py TARGET_PORT USER`.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESS = "127.0.0.1"
#: User without rights on every Unix: `nobody`.
NOBODY = 65534


@contextmanager
def forwarder(target: int, header: bytes = b"") -> Iterator[int]:
    """Forward connections to a port of this machine as this user, each with a header line in its request.

    Yields the port of the forwarder.
    """
    with socket.create_server((ADDRESS, 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, target, header), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@contextmanager
def forwarder_of_nobody(target: int) -> Iterator[int]:
    """Forward connections to a port of this machine as the user `nobody`. Yields the port of the forwarder."""
    command = [sys.executable, "-I", __file__, str(target), str(NOBODY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _serve(listener: socket.socket, target: int, header: bytes) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # the listener was shut down
            return
        with client, socket.socket() as server:
            server.connect((ADDRESS, target))  # imports nothing, unlike `create_connection`: `nobody` may not read
            _forward(client, server, header)


def _forward(client: socket.socket, server: socket.socket, header: bytes) -> None:
    """Copy data in both directions until one side ends."""
    other = {client: server, server: client}
    while True:
        for source in select.select([client, server], [], [])[0]:
            data = source.recv(1 << 16)
            if not data:
                return
            if source is client and header:
                line, end, rest = data.partition(b"\r\n")
                data, header = line + end + header + end + rest, b""
            other[source].sendall(data)


if __name__ == "__main__":
    port, user = (int(argument) for argument in sys.argv[1:])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    with socket.create_server((ADDRESS, 0)) as own:
        print(own.getsockname()[1], flush=True)
        _serve(own, port, b"")
