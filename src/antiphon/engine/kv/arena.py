"""The one memory budget: an arena of equal slabs, lent to block pools and taken back when they are empty."""

from __future__ import annotations

from typing import Protocol

#: Offsets count these bytes; the same unit as block table entries.
UNIT_BYTES = 256


class Borrower(Protocol):
    """A pool that holds slabs and can be asked for one that nobody uses."""

    def release_idle_slab(self) -> bool:
        """Give one slab back whose blocks are all unreferenced, evicting what is cached there; False if none."""

    def num_idle_slabs(self) -> int:
        """How many slabs `release_idle_slab` could give back."""


class SlabArena:
    """Bookkeeping of the arena's bytes. Slabs are equal; a slab's number times its size is its offset."""

    def __init__(self, total_bytes: int, slab_bytes: int) -> None:
        if slab_bytes % UNIT_BYTES or slab_bytes < UNIT_BYTES:
            raise ValueError(f"a slab of {slab_bytes} bytes is not a multiple of {UNIT_BYTES}")
        self.slab_bytes = slab_bytes
        self.num_slabs = total_bytes // slab_bytes
        self._free = list(range(self.num_slabs - 1, -1, -1))
        self._borrowers: list[Borrower] = []

    @property
    def num_free_slabs(self) -> int:
        return len(self._free)

    @property
    def total_bytes(self) -> int:
        return self.num_slabs * self.slab_bytes

    @property
    def lent_bytes(self) -> int:
        return (self.num_slabs - len(self._free)) * self.slab_bytes

    def register(self, borrower: Borrower) -> None:
        self._borrowers.append(borrower)

    def unregister(self, borrower: Borrower) -> None:
        self._borrowers.remove(borrower)

    def lend(self, asking: Borrower) -> int | None:
        """A slab for the asking pool: a free one, else one that another pool does not use. None when there is none."""
        if not self._free:
            for borrower in self._borrowers:
                if borrower is not asking and borrower.release_idle_slab():
                    break
        return self._free.pop() if self._free else None

    def take_back(self, slab: int) -> None:
        self._free.append(slab)

    def num_lendable_slabs(self, asking: Borrower) -> int:
        """Slabs that `lend` could still give this pool."""
        idle = sum(borrower.num_idle_slabs() for borrower in self._borrowers if borrower is not asking)
        return len(self._free) + idle

    def check_integrity(self, lent: list[int]) -> None:
        """Every slab is free or lent exactly once; `lent` are the slabs that the pools say they hold."""
        assert sorted(self._free + lent) == list(range(self.num_slabs)), (
            f"{len(self._free)} free and {len(lent)} lent slabs do not make {self.num_slabs}"
        )
