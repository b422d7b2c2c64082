"""Blocks of one group: counted, cached, evicted in order, packed together."""

from __future__ import annotations

import time

import pytest

from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.pool import BlockPool, CachedPrefix, PoolCounts


def pool_of(num_slabs: int, blocks_per_slab: int = 4) -> BlockPool:
    return BlockPool(SlabArena(num_slabs * blocks_per_slab * 256, blocks_per_slab * 256), 256)


def take(pool: BlockPool, name: int | None = None) -> int:
    block = pool.allocate()
    assert block is not None
    if name is not None:
        pool.remember(block, CachedPrefix(bytes([name]), (name,)))
    return block


def found(pool: BlockPool, name: int) -> int | None:
    return pool.find(bytes([name]), (name,))


def test_counts_follow_a_block_through_its_life() -> None:
    pool = pool_of(1)
    block = take(pool, 1)
    assert pool.counts() == PoolCounts(free=3, cached=0, owned=1)
    pool.share(block)
    pool.release(block)
    assert pool.counts().owned == 1
    pool.release(block)
    assert pool.counts() == PoolCounts(free=3, cached=1, owned=0)
    pool.share(block)
    assert pool.counts() == PoolCounts(free=3, cached=0, owned=1)
    pool.check_integrity({block: 1})


def test_nameless_blocks_give_their_slab_back() -> None:
    pool = pool_of(2)
    blocks = [take(pool) for _ in range(5)]
    assert pool.arena.num_free_slabs == 0
    pool.release(blocks[4])
    assert pool.arena.num_free_slabs == 1
    for block in blocks[:4]:
        pool.release(block)
    assert pool.arena.num_free_slabs == 2
    pool.check_integrity({})


def test_eviction_is_least_recently_used_first() -> None:
    pool = pool_of(1)
    blocks = [take(pool, name) for name in range(4)]
    for block in blocks:
        pool.release(block)
    pool.share(blocks[0])  # used again,
    pool.release(blocks[0])  # so the last to go
    gone = []
    for _ in range(4):
        take(pool)
        gone.append([name for name in range(4) if found(pool, name) is None])
    assert gone == [[1], [1, 2], [1, 2, 3], [0, 1, 2, 3]]
    assert pool.num_evictions == 4
    assert pool.allocate() is None


def test_owned_blocks_can_be_found_and_are_never_evicted() -> None:
    pool = pool_of(1)
    block = take(pool, 1)
    for _ in range(3):
        take(pool)
    assert pool.allocate() is None
    assert found(pool, 1) == block


def test_a_colliding_digest_is_no_hit() -> None:
    pool = pool_of(1)
    pool.remember(take(pool), CachedPrefix(b"same", (1, 2)))
    assert pool.find(b"same", (1, 2)) is not None
    assert pool.find(b"same", (1, 3)) is None


def test_the_first_block_of_a_content_keeps_the_name() -> None:
    pool = pool_of(1)
    first, second = take(pool, 1), take(pool, 1)
    assert found(pool, 1) == first
    pool.release(second)
    assert pool.counts().cached == 0, "the second was never named, so it is free"
    pool.check_integrity({first: 1})


def test_packing_empties_a_slab_and_keeps_counts_and_names() -> None:
    pool = pool_of(3)
    blocks = [take(pool, name) for name in range(12)]
    kept = [blocks[0], blocks[1], blocks[5], blocks[9]]
    for block in blocks:
        if block not in kept:
            pool.release(block)
    pool.share(blocks[5])
    assert pool.is_scattered
    moved = {}
    while pool.is_scattered:
        moved.update(pool.pack())
    now = [moved.get(block, block) for block in kept]
    assert len({block // 4 for block in now}) == 1
    assert [found(pool, blocks.index(block)) for block in kept] == now
    pool.check_integrity({block: 2 if block == now[2] else 1 for block in now})
    assert pool.arena.num_free_slabs == 0, "the rest of the slabs holds cached blocks"
    assert pool.release_idle_slab() and pool.release_idle_slab() and not pool.release_idle_slab()


def test_integrity_notices_what_is_wrong() -> None:
    pool = pool_of(1)
    block = take(pool)
    with pytest.raises(AssertionError, match="references"):
        pool.check_integrity({})
    pool.ref_counts[block] = 0
    with pytest.raises(AssertionError, match="0 of free, cached and owned"):
        pool.check_integrity({})


def test_taking_and_giving_cost_the_same_in_a_large_pool() -> None:
    """Also when the arena is exhausted and every block must be evicted."""

    def seconds(num_slabs: int) -> float:
        arena = SlabArena(num_slabs * 1024, 1024)
        pool, other = BlockPool(arena, 256), BlockPool(arena, 256)
        held = [other.allocate() for _ in range(2 * num_slabs)]
        assert None not in held
        name = 0
        for _ in range(2 * num_slabs):
            block = pool.allocate()
            assert block is not None
            name += 1
            pool.remember(block, CachedPrefix(name.to_bytes(4, "big"), (name,)))
            pool.release(block)
        begun = time.thread_time()  # of this thread, whatever else the machine has to do
        for _ in range(2000):
            block = pool.allocate()
            assert block is not None
            name += 1
            pool.remember(block, CachedPrefix(name.to_bytes(4, "big"), (name,)))
            pool.release(block)
        return time.thread_time() - begun

    small, large = min(seconds(16) for _ in range(3)), min(seconds(4096) for _ in range(3))
    assert large < 4 * small
