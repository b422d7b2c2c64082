"""`BlockPool`: the blocks of one cache group of one model: free, cached or owned, each in constant time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from antiphon.engine.kv.arena import UNIT_BYTES, SlabArena

#: Stands in a block table for a block that was given back early (it left the window).
NO_BLOCK = -1


@dataclass(slots=True)
class _Slab:
    number: int
    first_block: int
    free: list[int]  # block ids, taken from the end


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """What a cached block holds: its chained digest, and its tokens so that a hit is verified and not trusted."""

    digest: bytes
    tokens: tuple[int, ...]


@dataclass(slots=True)
class PoolCounts:
    free: int
    cached: int
    owned: int


@dataclass(slots=True)
class BlockPool:
    """Blocks of `block_bytes` cut from slabs of the arena.

    A block is *free* (in its slab's list), *owned* (count of references > 0) or *cached* (no reference, but its content
    can be found by digest, until it is evicted, least recently used first). A slab whose blocks are all free
    goes back to the arena.
    """

    arena: SlabArena
    block_bytes: int
    ref_counts: list[int] = field(default_factory=list)  # by block id
    entries: list[int] = field(default_factory=list)  # by block id: offset in the arena in units
    _slabs: dict[int, _Slab] = field(default_factory=dict)  # by index of the slab within the pool
    _spare_indexes: list[int] = field(default_factory=list)
    _with_free: dict[int, None] = field(default_factory=dict)  # slab indexes with a free block
    _prefixes: list[CachedPrefix | None] = field(default_factory=list)  # by block id
    _by_digest: dict[bytes, int] = field(default_factory=dict)
    _unreferenced: OrderedDict[int, None] = field(default_factory=OrderedDict)  # cached blocks, oldest first
    _cached_in_slab: list[int] = field(default_factory=list)  # by slab index
    num_free_in_slabs: int = 0
    num_evictions: int = 0

    def __post_init__(self) -> None:
        if self.block_bytes % UNIT_BYTES:
            raise ValueError(f"a block of {self.block_bytes} bytes is not a multiple of {UNIT_BYTES}")
        if self.block_bytes > self.arena.slab_bytes:
            raise ValueError(f"a block of {self.block_bytes} bytes does not fit a slab of {self.arena.slab_bytes}")
        self.blocks_per_slab = self.arena.slab_bytes // self.block_bytes
        self.arena.register(self)

    blocks_per_slab: int = 0

    # -- what there is ------------------------------------------------------------------------------------------

    def num_available(self) -> int:
        """Blocks that `allocate` could hand out one after another."""
        own = self.num_free_in_slabs + len(self._unreferenced)
        return own + self.arena.num_lendable_slabs(self) * self.blocks_per_slab

    def num_capacity(self) -> int:
        """Blocks that fit if the whole arena were this pool's."""
        return self.arena.num_slabs * self.blocks_per_slab

    def counts(self) -> PoolCounts:
        total = len(self._slabs) * self.blocks_per_slab
        cached = len(self._unreferenced)
        return PoolCounts(self.num_free_in_slabs, cached, total - self.num_free_in_slabs - cached)

    # -- taking and giving --------------------------------------------------------------------------------------

    def allocate(self) -> int | None:
        """A block with one reference, or None when nothing is left to take or evict."""
        if not self._with_free and not self._borrow():
            if not self._unreferenced:
                return None
            self._evict(next(iter(self._unreferenced)))
        index = next(iter(self._with_free))
        slab = self._slabs[index]
        block = slab.free.pop()
        if not slab.free:
            del self._with_free[index]
        self.num_free_in_slabs -= 1
        self.ref_counts[block] = 1
        return block

    def share(self, block: int) -> None:
        """One more reference to a block that is owned or cached."""
        if self.ref_counts[block] == 0:
            del self._unreferenced[block]
            self._cached_in_slab[block // self.blocks_per_slab] -= 1
        self.ref_counts[block] += 1

    def release(self, block: int) -> None:
        """One reference less; the last one leaves the block cached if its content is known, else free."""
        self.ref_counts[block] -= 1
        if self.ref_counts[block]:
            return
        if self._prefixes[block] is not None:
            self._unreferenced[block] = None
            self._cached_in_slab[block // self.blocks_per_slab] += 1
        else:
            self._make_free(block)

    # -- the prefix cache ---------------------------------------------------------------------------------------

    def remember(self, block: int, prefix: CachedPrefix) -> None:
        """Let an owned, full block be found by its content. The first block of a content keeps the name."""
        if prefix.digest not in self._by_digest and self._prefixes[block] is None:
            self._by_digest[prefix.digest] = block
            self._prefixes[block] = prefix

    def find(self, digest: bytes, tokens: tuple[int, ...]) -> int | None:
        """The block with this content, owned or cached; the tokens are compared, so a colliding digest is no hit."""
        block = self._by_digest.get(digest)
        if block is None:
            return None
        prefix = self._prefixes[block]
        return block if prefix is not None and prefix.tokens == tokens else None

    def forget_all(self) -> None:
        """Drop the whole prefix cache; owned blocks stay owned."""
        for block in list(self._unreferenced):
            self._evict(block)
        self._by_digest.clear()
        self._prefixes = [None] * len(self._prefixes)

    def _evict(self, block: int) -> None:
        del self._unreferenced[block]
        self._cached_in_slab[block // self.blocks_per_slab] -= 1
        prefix = self._prefixes[block]
        assert prefix is not None
        del self._by_digest[prefix.digest]
        self._prefixes[block] = None
        self.num_evictions += 1
        self._make_free(block, keep_slab=True)

    # -- slabs --------------------------------------------------------------------------------------------------

    def _make_free(self, block: int, keep_slab: bool = False) -> None:
        index = block // self.blocks_per_slab
        slab = self._slabs[index]
        slab.free.append(block)
        self._with_free[index] = None
        self.num_free_in_slabs += 1
        if len(slab.free) == self.blocks_per_slab and not keep_slab:
            self._give_back(index)

    def _borrow(self) -> bool:
        number = self.arena.lend(self)
        if number is None:
            return False
        size = self.blocks_per_slab
        if self._spare_indexes:
            index = self._spare_indexes.pop()
        else:
            index = len(self.entries) // size
            self.entries.extend([0] * size)
            self.ref_counts.extend([0] * size)
            self._prefixes.extend([None] * size)
            self._cached_in_slab.append(0)
        first, units = index * size, self.block_bytes // UNIT_BYTES
        base = number * self.arena.slab_bytes // UNIT_BYTES
        for i in range(size):
            self.entries[first + i] = base + i * units
        self._slabs[index] = _Slab(number, first, list(range(first + size - 1, first - 1, -1)))
        self._with_free[index] = None
        self.num_free_in_slabs += size
        return True

    def _give_back(self, index: int) -> None:
        slab = self._slabs.pop(index)
        del self._with_free[index]
        self.num_free_in_slabs -= self.blocks_per_slab
        self._spare_indexes.append(index)
        self.arena.take_back(slab.number)

    def _is_idle(self, index: int) -> bool:
        return len(self._slabs[index].free) + self._cached_in_slab[index] == self.blocks_per_slab

    def num_idle_slabs(self) -> int:
        return sum(self._is_idle(index) for index in self._slabs)

    def release_idle_slab(self) -> bool:
        """Give back a slab without owned blocks: the one that costs the fewest cached blocks."""
        idle = [index for index in self._slabs if self._is_idle(index)]
        if not idle:
            return False
        index = min(idle, key=lambda i: self._cached_in_slab[i])
        first = index * self.blocks_per_slab
        for block in range(first, first + self.blocks_per_slab):
            if block in self._unreferenced:
                self._evict(block)
        self._give_back(index)
        return True

    def close(self) -> None:
        """Return every slab to the arena. Nothing may be owned."""
        assert self.counts().owned == 0, f"{self.counts().owned} blocks are still owned"
        while self._slabs:
            self.release_idle_slab()
        self.arena.unregister(self)

    # -- the books ----------------------------------------------------------------------------------------------

    def lent_slabs(self) -> list[int]:
        return [slab.number for slab in self._slabs.values()]

    def check_integrity(self, expected_refs: dict[int, int]) -> None:
        """Every block of every slab is free, cached or owned, with as many references as its owners say."""
        size = self.blocks_per_slab
        free: set[int] = set()
        for index, slab in self._slabs.items():
            free.update(slab.free)
            assert (index in self._with_free) == bool(slab.free)
            cached = sum(block in self._unreferenced for block in range(index * size, (index + 1) * size))
            assert self._cached_in_slab[index] == cached, "cached blocks of a slab are miscounted"
        assert len(free) == self.num_free_in_slabs, f"{len(free)} free blocks, {self.num_free_in_slabs} counted"
        for index in self._slabs:
            for block in range(index * size, (index + 1) * size):
                refs = expected_refs.get(block, 0)
                assert self.ref_counts[block] == refs, f"block {block}: {self.ref_counts[block]} references, not {refs}"
                places = (block in free) + (block in self._unreferenced) + (refs > 0)
                assert places == 1, f"block {block} is in {places} of free, cached and owned"
                if block in self._unreferenced:
                    assert self._prefixes[block] is not None
                if block in free:
                    assert self._prefixes[block] is None
        for block in expected_refs:
            assert block // size in self._slabs, f"block {block} is owned but its slab is gone"
        for digest, block in self._by_digest.items():
            prefix = self._prefixes[block]
            assert prefix is not None and prefix.digest == digest
