"""`MessageMemory`: memory for large WebSocket messages that arrive, wait or are being handled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: Maximum bytes of large messages of all connections: some are received while others are handled.
MAX_BYTES = 64 << 20
#: Minimum speed of a message after START_SECONDS; while other connections wait, a slower one loses its memory.
MIN_BYTES_PER_SECOND = 256 << 10
START_SECONDS = 5.0


class MessageLease:
    """Memory for one message. `on_granted` is called if it is granted later, `on_revoked` if the message is slow."""

    def __init__(
        self, memory: MessageMemory, num_bytes: int, on_granted: Callable[[], None], on_revoked: Callable[[], None]
    ) -> None:
        self._memory = memory
        self.num_bytes = num_bytes
        self.on_granted = on_granted
        self.on_revoked = on_revoked
        self.is_granted = False
        self.is_released = False
        self.granted_at = 0.0
        #: Bytes that have arrived; None once the message is complete.
        self.num_arrived: int | None = 0

    def complete(self, num_bytes: int) -> None:
        """Shrink the lease to the size of its message, which has arrived completely."""
        self.num_arrived = None
        self._memory.resize(self, num_bytes)

    def release(self) -> None:
        """Release the memory, or stop waiting for it. May be called twice."""
        if not self.is_released:
            self.is_released = True
            self._memory.remove(self)


class MessageMemory:
    """Memory of all connections, for one event loop. Leases are granted in the order of the requests."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._granted: dict[MessageLease, None] = {}
        self._waiting: deque[MessageLease] = deque()

    def ask(self, num_bytes: int, on_granted: Callable[[], None], on_revoked: Callable[[], None]) -> MessageLease:
        lease = MessageLease(self, num_bytes, on_granted, on_revoked)
        self._waiting.append(lease)
        if len(self._waiting) == 1 and self._fits(lease):
            self._grant()
        return lease

    def revoke_slow(self) -> None:
        """Revoke the memory of messages that arrive too slowly. Called while a connection waits."""
        now = asyncio.get_running_loop().time()
        for lease in list(self._granted):
            seconds = now - lease.granted_at
            if lease.num_arrived is None or seconds < START_SECONDS:
                continue
            if lease.num_arrived < MIN_BYTES_PER_SECOND * seconds:
                lease.release()
                lease.on_revoked()

    # -- for leases ---------------------------------------------------------------------------------------------

    def resize(self, lease: MessageLease, num_bytes: int) -> None:
        if lease in self._granted:
            self.num_bytes += num_bytes - lease.num_bytes
        lease.num_bytes = num_bytes
        self._grant_waiting()

    def remove(self, lease: MessageLease) -> None:
        if lease in self._granted:
            del self._granted[lease]
            self.num_bytes -= lease.num_bytes
        else:
            self._waiting.remove(lease)
        self._grant_waiting()

    def _fits(self, lease: MessageLease) -> bool:
        return not self._granted or self.num_bytes + lease.num_bytes <= self.max_bytes

    def _grant(self) -> MessageLease:
        lease = self._waiting.popleft()
        lease.is_granted = True
        lease.granted_at = asyncio.get_running_loop().time()
        self._granted[lease] = None
        self.num_bytes += lease.num_bytes
        return lease

    def _grant_waiting(self) -> None:
        while self._waiting and self._fits(self._waiting[0]):
            self._grant().on_granted()
