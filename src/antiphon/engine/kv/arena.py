"""`SlabArena`: the memory budget as an arena of equal slabs, lent to block pools and taken back when empty."""

from __future__ import annotations

from typing import Protocol

#: Unit of block table entries, in bytes; slab and block sizes are multiples of it.
UNIT_BYTES = 256


class Borrower(Protocol):
    """Pool that holds slabs and can return an idle one."""

    def release_idle_slab(self) -> bool:
        """Return the slab that has been idle longest, evicting its cached blocks; return False if no slab is idle."""

    def idle_since(self) -> int | None:
        """Return the tick at which the slab that has been idle longest became idle; None if no slab is idle."""

    def lent_slabs(self) -> list[int]:
        """Return the arena's numbers of the slabs that the pool holds."""


class SlabArena:
    """Bookkeeping of the arena's bytes. A slab's offset is its number times `slab_bytes`."""

    def __init__(self, total_bytes: int, slab_bytes: int) -> None:
        if slab_bytes % UNIT_BYTES or slab_bytes < UNIT_BYTES:
            raise ValueError(f"a slab of {slab_bytes} bytes is not a multiple of {UNIT_BYTES}")
        self.slab_bytes = slab_bytes
        self.num_slabs = total_bytes // slab_bytes
        self._free = list(range(self.num_slabs - 1, -1, -1))
        self._borrowers: list[Borrower] = []
        self._ticks = 0

    @property
    def num_free_slabs(self) -> int:
        return len(self._free)

    @property
    def total_bytes(self) -> int:
        return self.num_slabs * self.slab_bytes

    @property
    def lent_bytes(self) -> int:
        return (self.num_slabs - len(self._free)) * self.slab_bytes

    def free_spans(self) -> list[tuple[int, int]]:
        """Return the offset and the bytes of every run of free slabs."""
        spans: list[tuple[int, int]] = []
        for slab in sorted(self._free):
            offset = slab * self.slab_bytes
            if spans and sum(spans[-1]) == offset:
                spans[-1] = (spans[-1][0], spans[-1][1] + self.slab_bytes)
            else:
                spans.append((offset, self.slab_bytes))
        return spans

    def register(self, borrower: Borrower) -> None:
        self._borrowers.append(borrower)

    def unregister(self, borrower: Borrower) -> None:
        self._borrowers.remove(borrower)

    def tick(self) -> int:
        """Increment and return a counter that orders uses across all pools."""
        self._ticks += 1
        return self._ticks

    def lend(self, asking: Borrower, oldest: int | None = None) -> int | None:
        """Return a slab for a pool: a free slab, otherwise the slab of another pool that has been idle longest.

        Return None if there is neither, or if that slab became idle after `oldest`, the tick of the oldest block that
        the asking pool itself could evict.
        """
        if not self._free:
            idle_since = [
                (since, index)
                for index, borrower in enumerate(self._borrowers)
                if borrower is not asking and (since := borrower.idle_since()) is not None
            ]
            if not idle_since:
                return None
            since, index = min(idle_since)
            if oldest is not None and since > oldest:
                return None
            self._borrowers[index].release_idle_slab()
        return self._free.pop()

    def take_back(self, slab: int) -> None:
        self._free.append(slab)

    def check_integrity(self) -> None:
        """Assert that every slab is either free or lent exactly once."""
        lent = [number for borrower in self._borrowers for number in borrower.lent_slabs()]
        assert sorted(self._free + lent) == list(range(self.num_slabs)), (
            f"{len(self._free)} free and {len(lent)} lent slabs do not make {self.num_slabs}"
        )
