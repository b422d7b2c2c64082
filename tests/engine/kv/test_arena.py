"""Slabs are lent, reclaimed from the pool that has not used them for longest, and all returned."""

from __future__ import annotations

import pytest

from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.pool import BlockPool, CachedPrefix


def remembered(pool: BlockPool, name: int) -> int:
    """An owned block whose content others can find."""
    block = pool.allocate()
    assert block is not None
    pool.remember(block, CachedPrefix(bytes([name]), (name,)))
    return block


def test_pools_of_different_block_sizes_lend_and_reclaim_slabs() -> None:
    arena = SlabArena(4 * 1024, 1024)
    small, large = BlockPool(arena, 256), BlockPool(arena, 768)
    blocks = [small.allocate() for _ in range(16)]
    assert None not in blocks and arena.num_free_slabs == 0
    assert small.allocate() is None and large.allocate() is None
    for block in blocks[:4]:  # one whole slab
        small.release(block)
    assert arena.num_free_slabs == 1
    held = large.allocate()
    assert held is not None and large.allocate() is None
    assert len({small.entries[block] for block in blocks[4:]} | {large.entries[held]}) == 13
    small.check_integrity(dict.fromkeys(blocks[4:], 1))
    large.check_integrity({held: 1})
    arena.check_integrity()


def test_entries_of_two_pools_never_overlap() -> None:
    arena = SlabArena(8 * 2048, 2048)
    pools = [BlockPool(arena, 512), BlockPool(arena, 768)]
    taken: set[int] = set()
    for turn in range(18):
        pool = pools[turn % 2]
        block = pool.allocate()
        assert block is not None
        units = set(range(pool.entries[block], pool.entries[block] + pool.block_bytes // 256))
        assert not units & taken and max(units) < 8 * 2048 // 256
        taken |= units


def test_the_slab_idle_for_longest_is_reclaimed_from_any_pool() -> None:
    arena = SlabArena(3 * 256, 256)
    first, second, asking = BlockPool(arena, 256), BlockPool(arena, 256), BlockPool(arena, 256)
    a, b, c = remembered(first, 1), remembered(second, 2), remembered(second, 3)
    second.release(b)
    first.release(a)
    second.release(c)
    assert asking.allocate() is not None
    assert second.find(bytes([2]), (2,)) is None, "it was let go first"
    assert first.find(bytes([1]), (1,)) is not None
    assert asking.allocate() is not None
    assert first.find(bytes([1]), (1,)) is None
    assert second.find(bytes([3]), (3,)) is not None


def test_a_pool_evicts_its_own_oldest_before_another_pools_younger() -> None:
    arena = SlabArena(2 * 256, 256)
    mine, other = BlockPool(arena, 256), BlockPool(arena, 256)
    old, young = remembered(mine, 1), remembered(other, 2)
    mine.release(old)
    other.release(young)
    assert mine.allocate() is not None
    assert mine.find(bytes([1]), (1,)) is None
    assert other.find(bytes([2]), (2,)) is not None


def test_closing_one_of_two_equal_pools_leaves_the_other_known() -> None:
    arena = SlabArena(2 * 256, 256)
    first, second = BlockPool(arena, 256), BlockPool(arena, 256)
    second.close()
    block = first.allocate()
    assert block is not None
    arena.check_integrity()
    first.release(block)
    first.close()
    arena.check_integrity()
    assert arena.num_free_slabs == 2


def test_bad_sizes_are_rejected() -> None:
    with pytest.raises(ValueError, match="1000"):
        SlabArena(4096, 1000)
    arena = SlabArena(4096, 1024)
    with pytest.raises(ValueError, match="300"):
        BlockPool(arena, 300)
    with pytest.raises(ValueError, match="2048"):
        BlockPool(arena, 2048)


def test_lent_bytes() -> None:
    arena = SlabArena(4096 + 100, 1024)
    assert arena.total_bytes == 4096 and arena.lent_bytes == 0
    BlockPool(arena, 512).allocate()
    assert arena.lent_bytes == 1024
