"""`Lane`: limit of batch requests that run at once."""

from __future__ import annotations

from antiphon.server.web.middleware.active_requests import ActiveRequests


class Lane:
    """At most `size` requests of all batches together, and only one while requests of clients are in flight.

    Batches wait in order of arrival.
    """

    def __init__(self, requests: ActiveRequests, size: int) -> None:
        self._requests = requests
        self._size = size
        self._running = 0

    async def acquire(self) -> None:
        while self._running >= (1 if self._requests.num_of_clients else self._size):
            await self._requests.until_one_ends()
        self._running += 1

    def release(self) -> None:
        self._running -= 1
        self._requests.wake()
