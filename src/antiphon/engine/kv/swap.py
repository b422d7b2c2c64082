"""`SwapSpace`: preempted requests whose blocks are copied to host memory, and the bytes that are left."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.engine.request import Request


@dataclass(frozen=True, slots=True)
class _Copy:
    key: str
    held: list[list[bool]]  # by group: table entries that had a block
    num_bytes: int


class SwapSpace:
    """Bookkeeping of swapped copies; the executor keeps the bytes. A key is never reused."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.num_bytes = 0
        self._copies: dict[int, _Copy] = {}  # by order of arrival of the request
        self._dropped: list[str] = []

    def has_room(self, num_bytes: int) -> bool:
        return self.num_bytes + num_bytes <= self.limit_bytes

    def put(self, request: Request, held: list[list[bool]], num_bytes: int) -> str:
        """Register a request whose blocks are copied to host memory; return the key of the copy."""
        key = f"{request.sequence}:{request.marks.preemptions}"
        self._copies[request.sequence] = _Copy(key, held, num_bytes)
        self.num_bytes += num_bytes
        request.swapped = True
        return key

    def held(self, request: Request) -> list[list[bool]]:
        return self._copies[request.sequence].held

    def take(self, request: Request) -> str:
        """Unregister a request whose blocks are copied back; return the key of the copy."""
        copy = self._copies.pop(request.sequence)
        self.num_bytes -= copy.num_bytes
        request.swapped = False
        return copy.key

    def drop(self, request: Request) -> None:
        """Discard the copy of a request that ended or computes its tokens again."""
        self._dropped.append(self.take(request))

    @property
    def has_dropped(self) -> bool:
        return bool(self._dropped)

    def take_dropped(self) -> list[str]:
        """Return the keys of discarded copies that no plan has carried to the executor yet, and clear them."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def check_integrity(self, swapped: set[int]) -> None:
        """Assert that copies exist exactly for `swapped`, the swapped requests by order of arrival."""
        assert set(self._copies) == swapped, "swapped requests and their copies differ"
        assert self.num_bytes == sum(copy.num_bytes for copy in self._copies.values()) <= self.limit_bytes
