"""`Announcement`: announces a Wyoming server on the local network by Zeroconf (multicast DNS)."""

from __future__ import annotations

import socket
from typing import Any

from antiphon.dependencies import import_dependency

SERVICE = "_wyoming._tcp.local."
#: Multicast DNS group; the route to it reveals the address under which the local network sees this machine.
GROUP = "224.0.0.251"


class Announcement:
    """Announcement of a server, which Home Assistant then offers to set up."""

    def __init__(self, host: str, port: int) -> None:
        package = import_dependency("zeroconf", "wyoming_zeroconf")
        name = f"antiphon-{socket.gethostname().partition('.')[0]}-{port}"
        self.address = network_address() if host in ("0.0.0.0", "::", "") else socket.gethostbyname(host)
        self._service: Any = package.ServiceInfo(
            SERVICE, f"{name}.{SERVICE}", addresses=[socket.inet_aton(self.address)], port=port, server=f"{name}.local."
        )
        self._zeroconf: Any = None

    async def start(self) -> None:
        asynchronous = import_dependency("zeroconf.asyncio", "wyoming_zeroconf", "zeroconf")
        zeroconf = asynchronous.AsyncZeroconf(interfaces=[self.address])
        try:
            await zeroconf.async_register_service(self._service)
        except BaseException:
            await zeroconf.async_close()
            raise
        self._zeroconf = zeroconf

    async def stop(self) -> None:
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_service(self._service)
            await self._zeroconf.async_close()


def network_address() -> str:
    """Return the address of this machine on its network, without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((GROUP, 1))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
