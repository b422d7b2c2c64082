"""`BlockPool`: free, cached and owned blocks of one model's cache group, each operation in constant time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from antiphon.engine.kv.arena import UNIT_BYTES, SlabArena

#: Table entry of a block that was freed because it left the window.
NO_BLOCK = -1


@dataclass(slots=True)
class _Slab:
    number: int
    free: list[int]  # block ids, taken from the end
    num_owned: int = 0


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """Identity of a cached block's content: its chained digest, and its tokens to verify a hit."""

    digest: bytes
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """Copies of a pool's records for another thread. Block b lies in slab `slabs[b

    blocks_per_slab]`.
    """

    block_bytes: int
    blocks_per_slab: int
    slabs: dict[int, int]  # slab index within the pool → slab number in the arena
    ref_counts: list[int]  # by block id
    cached: list[int]  # block ids


@dataclass(slots=True)
class PoolCounts:
    free: int
    cached: int
    owned: int


@dataclass(slots=True, eq=False)
class BlockPool:
    """Blocks of `block_bytes`, cut from slabs of the arena.

    A block is *free* (in its slab's list), *owned* (with references) or *cached* (without references, but found by its
    digest until it is evicted, least recently used first). A slab of free blocks only goes back to the arena; a slab
    without owned blocks is *idle* and can be reclaimed for another pool.
    """

    arena: SlabArena
    block_bytes: int
    ref_counts: list[int] = field(default_factory=list)  # by block id
    entries: list[int] = field(default_factory=list)  # by block id: offset in the arena in units
    blocks_per_slab: int = 0
    num_free: int = 0
    num_evictions: int = 0
    _slabs: dict[int, _Slab] = field(default_factory=dict)  # by slab index within the pool
    _spare_indexes: list[int] = field(default_factory=list)
    _with_free: dict[int, None] = field(default_factory=dict)  # slab indexes with a free block
    _idle: dict[int, int] = field(default_factory=dict)  # slab index → tick of its last release, oldest first
    _prefixes: list[CachedPrefix | None] = field(default_factory=list)  # by block id
    _by_digest: dict[bytes, int] = field(default_factory=dict)
    # cached block id → tick of its release, oldest first
    _unreferenced: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if self.block_bytes % UNIT_BYTES:
            raise ValueError(f"a block of {self.block_bytes} bytes is not a multiple of {UNIT_BYTES}")
        if self.block_bytes > self.arena.slab_bytes:
            raise ValueError(f"a block of {self.block_bytes} bytes does not fit a slab of {self.arena.slab_bytes}")
        self.blocks_per_slab = self.arena.slab_bytes // self.block_bytes
        self.arena.register(self)

    # -- counts -------------------------------------------------------------------------------------------------

    def counts(self) -> PoolCounts:
        total = len(self._slabs) * self.blocks_per_slab
        cached = len(self._unreferenced)
        return PoolCounts(self.num_free, cached, total - self.num_free - cached)

    def snapshot(self) -> PoolSnapshot:
        slabs = {index: slab.number for index, slab in self._slabs.items()}
        return PoolSnapshot(self.block_bytes, self.blocks_per_slab, slabs, self.ref_counts[:], list(self._unreferenced))

    @property
    def is_scattered(self) -> bool:
        """Whether the owned blocks would fit into fewer slabs."""
        owned = len(self._slabs) * self.blocks_per_slab - self.num_free - len(self._unreferenced)
        return len(self._slabs) - len(self._idle) > -(-owned // self.blocks_per_slab)

    # -- references ---------------------------------------------------------------------------------------------

    def allocate(self) -> int | None:
        """Return a block with one reference: a free one, otherwise the oldest cached one; None if there is neither."""
        if not self._with_free and not self._borrow() and not self._evict_oldest():
            return None
        index = next(iter(self._with_free))
        slab = self._slabs[index]
        block = slab.free.pop()
        if not slab.free:
            del self._with_free[index]
        self.num_free -= 1
        self._own(slab, index)
        self.ref_counts[block] = 1
        return block

    def share(self, block: int) -> None:
        """Add a reference to an owned or cached block."""
        if self.ref_counts[block] == 0:
            del self._unreferenced[block]
            index = block // self.blocks_per_slab
            self._own(self._slabs[index], index)
        self.ref_counts[block] += 1

    def _own(self, slab: _Slab, index: int) -> None:
        slab.num_owned += 1
        if slab.num_owned == 1:
            del self._idle[index]

    def release(self, block: int) -> None:
        """Remove a reference; the last one leaves the block cached if its content is registered, otherwise free."""
        self.ref_counts[block] -= 1
        if self.ref_counts[block]:
            return
        index = block // self.blocks_per_slab
        slab = self._slabs[index]
        slab.num_owned -= 1
        if not slab.num_owned:
            self._idle[index] = self.arena.tick()
        if self._prefixes[block] is not None:
            self._unreferenced[block] = self.arena.tick()
        else:
            self._make_free(block, slab, index)
            if len(slab.free) == self.blocks_per_slab:
                self._give_back(index)

    # -- the prefix cache ---------------------------------------------------------------------------------------

    def remember(self, block: int, prefix: CachedPrefix) -> None:
        """Make an owned, full block findable by its content; if another block has that content, do nothing."""
        if prefix.digest not in self._by_digest and self._prefixes[block] is None:
            self._by_digest[prefix.digest] = block
            self._prefixes[block] = prefix

    def find(self, digest: bytes, tokens: tuple[int, ...]) -> int | None:
        """Return the owned or cached block with this content, or None; comparing tokens rejects digest collisions."""
        block = self._by_digest.get(digest)
        if block is None:
            return None
        prefix = self._prefixes[block]
        return block if prefix is not None and prefix.tokens == tokens else None

    def _evict_oldest(self) -> bool:
        if not self._unreferenced:
            return False
        self._evict(next(iter(self._unreferenced)))
        return True

    def _evict(self, block: int) -> None:
        del self._unreferenced[block]
        prefix = self._prefixes[block]
        assert prefix is not None
        del self._by_digest[prefix.digest]
        self._prefixes[block] = None
        self.num_evictions += 1
        index = block // self.blocks_per_slab
        self._make_free(block, self._slabs[index], index)

    # -- slabs --------------------------------------------------------------------------------------------------

    def _make_free(self, block: int, slab: _Slab, index: int) -> None:
        slab.free.append(block)
        self._with_free[index] = None
        self.num_free += 1

    def _borrow(self) -> bool:
        """Borrow a slab that is free, or idle longer than any block cached here; return False if no slab is."""
        oldest = next(iter(self._unreferenced.values()), None)
        number = self.arena.lend(self, oldest)
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
        first, units = index * size, self.block_bytes // UNIT_BYTES
        base = number * self.arena.slab_bytes // UNIT_BYTES
        for i in range(size):
            self.entries[first + i] = base + i * units
        self._slabs[index] = _Slab(number, list(range(first + size - 1, first - 1, -1)))
        self._with_free[index] = None
        self._idle[index] = self.arena.tick()
        self.num_free += size
        return True

    def _give_back(self, index: int) -> None:
        slab = self._slabs.pop(index)
        del self._with_free[index], self._idle[index]
        self.num_free -= self.blocks_per_slab
        self._spare_indexes.append(index)
        self.arena.take_back(slab.number)

    def idle_since(self) -> int | None:
        return next(iter(self._idle.values()), None)

    def release_idle_slab(self) -> bool:
        """Return the longest idle slab to the arena, evicting its cached blocks; return False if no slab is idle."""
        index = next(iter(self._idle), None)
        if index is None:
            return False
        first = index * self.blocks_per_slab
        for block in range(first, first + self.blocks_per_slab):
            if block in self._unreferenced:
                self._evict(block)
        self._give_back(index)
        return True

    def close(self) -> None:
        """Return every slab to the arena. No block may be owned."""
        assert self.counts().owned == 0, f"{self.counts().owned} blocks are still owned"
        while self.release_idle_slab():
            pass
        self.arena.unregister(self)

    # -- packing ------------------------------------------------------------------------------------------------

    def pack(self) -> dict[int, int]:
        """Empty the slab with the fewest owned blocks into the other slabs in use; return old → new block ids.

        Only for a pool that `is_scattered`. References and prefixes move along; the caller copies the contents and
        updates the tables.
        """
        size = self.blocks_per_slab
        in_use = sorted((i for i in self._slabs if i not in self._idle), key=lambda i: self._slabs[i].num_owned)
        source, targets = in_use[0], in_use[1:]
        moved: dict[int, int] = {}
        for block in range(source * size, (source + 1) * size):
            if not self.ref_counts[block]:
                continue
            while self._slabs[targets[-1]].num_owned == size:
                targets.pop()
            moved[block] = self._move(block, targets[-1])
        return moved

    def _move(self, block: int, target: int) -> int:
        slab, size = self._slabs[target], self.blocks_per_slab
        if not slab.free:
            cached = range(target * size, (target + 1) * size)
            self._evict(min((b for b in cached if b in self._unreferenced), key=self._unreferenced.__getitem__))
        new = slab.free.pop()
        if not slab.free:
            del self._with_free[target]
        self.num_free -= 1
        slab.num_owned += 1
        self.ref_counts[new] = self.ref_counts[block]
        prefix = self._prefixes[new] = self._prefixes[block]
        if prefix is not None:
            self._by_digest[prefix.digest] = new
            self._prefixes[block] = None
        self.ref_counts[block] = 1
        self.release(block)
        return new

    # -- integrity ----------------------------------------------------------------------------------------------

    def lent_slabs(self) -> list[int]:
        return [slab.number for slab in self._slabs.values()]

    def check_integrity(self, expected_refs: dict[int, int]) -> None:
        """Assert that every block is free, cached or owned, with as many references as `expected_refs` has."""
        size, cached = self.blocks_per_slab, self._unreferenced
        num_free = num_cached = num_named = 0
        for index, slab in self._slabs.items():
            free = set(slab.free)
            assert len(free) == len(slab.free), f"slab {index} has a block free twice"
            num_free += len(free)
            owned = 0
            for block in range(index * size, (index + 1) * size):
                refs = self.ref_counts[block]
                expected = expected_refs.get(block, 0)
                assert refs == expected, f"block {block}: {refs} references, not {expected}"
                states = (block in free) + (block in cached) + (refs > 0)
                assert states == 1, f"block {block} is in {states} of free, cached and owned"
                owned += refs > 0
                prefix = self._prefixes[block]
                if prefix is None:
                    assert block not in cached, f"block {block} is cached without a name"
                else:
                    num_named += 1
                    assert block not in free, f"block {block} is free and has a name"
                    assert self._by_digest[prefix.digest] == block
                num_cached += block in cached
            assert owned == slab.num_owned, f"slab {index} owns {owned} blocks, {slab.num_owned} counted"
            assert (index in self._with_free) == bool(free)
            assert (index in self._idle) == (not owned)
        assert num_free == self.num_free, f"{num_free} free blocks, {self.num_free} counted"
        assert num_cached == len(cached), "cached blocks lie outside the slabs"
        assert num_named == len(self._by_digest), "a digest names a block that does not carry it"
        assert len(self._with_free) <= len(self._slabs) and len(self._idle) <= len(self._slabs)
        for order in (self._unreferenced, self._idle):
            assert list(order.values()) == sorted(order.values()), "not in order of last use"
        for block in expected_refs:
            assert block // size in self._slabs, f"block {block} is owned but its slab is gone"
