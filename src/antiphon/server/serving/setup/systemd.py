"""Messages to systemd (`sd_notify`): the server listens, still responds, or is stopping."""

from __future__ import annotations

import contextlib
import socket

from antiphon import environment

READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


def notify(message: str) -> None:
    """Send a message if systemd expects any."""
    address = environment.notify_socket()
    if address is None:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)
