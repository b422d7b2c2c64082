"""`CacheMap`: the pages of a cache as runs of free, cached and shared ones, and of those of each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from antiphon.engine.kv.pool import NO_BLOCK, PoolSnapshot
from antiphon.engine.model_slot import ModelSlot

#: Codes of pages; a request's pages have this code plus its index in `owners`.
FREE, CACHED, SHARED, FIRST_OWNER = 0, 1, 2, 3
#: A map has no more cells: of larger caches every n-th page is shown.
MAX_CELLS = 8192


@dataclass(frozen=True)
class CacheSnapshot:
    """Copies of the books of a model's cache. `tables` has, for each request, its block ids by pool."""

    model: str
    device: str
    pools: list[tuple[str, PoolSnapshot]]  # by name of the group
    tables: list[tuple[str, list[list[int]]]]


def cache_snapshot(slot: ModelSlot) -> CacheSnapshot | None:
    """The model's cache now; None if it has none. For the engine's thread: it copies lists and computes nothing."""
    kv = getattr(slot.scheduler, "kv", None)  # one-shot requests have none
    if kv is None:
        return None
    pools = [(group.name, pool.snapshot()) for group, pool in zip(kv.groups, kv.pools, strict=True)]
    holders = [request for request in slot.scheduler.requests() if request.tables]
    tables = [(request.id, [table[:] for table in request.tables]) for request in holders]
    return CacheSnapshot(slot.name, slot.device, pools, tables)


def held_bytes(slot: ModelSlot) -> int:
    """Of the arena: what a model's cache holds, cached and free pages included. For the engine's thread."""
    kv = getattr(slot.scheduler, "kv", None)
    return 0 if kv is None else sum(len(pool.lent_slabs()) for pool in kv.pools) * kv.arena.slab_bytes


def cache_maps(snapshot: CacheSnapshot) -> list[dict[str, Any]]:
    """One map for each pool of a model's cache.

    `runs` are pairs of a code and a number of cells, one after the other, over the pool's pages in the order of the
    arena; a cell is `pages_per_cell` pages, shown by the first of them.
    """
    return [_pool_map(snapshot, index) for index in range(len(snapshot.pools))]


def _pool_map(snapshot: CacheSnapshot, index: int) -> dict[str, Any]:
    group, pool = snapshot.pools[index]
    codes = np.zeros(len(pool.ref_counts), np.int64)
    codes[pool.cached] = CACHED
    owners: list[str] = []
    for request_id, tables in snapshot.tables:
        blocks = _held(tables[index]) if index < len(tables) else None
        if blocks is not None and blocks.size:
            codes[blocks] = FIRST_OWNER + len(owners)
            owners.append(request_id)
    codes[np.asarray(pool.ref_counts, np.int64) > 1] = SHARED
    cells = _in_order_of_arena(codes, pool)
    step = max(1, -(-cells.size // MAX_CELLS))
    return {
        "model": snapshot.model,
        "device": snapshot.device,
        "group": group,
        "page_bytes": pool.block_bytes,
        "num_pages": int(cells.size),
        "pages_per_cell": step,
        "owners": owners,
        "runs": run_lengths(cells[::step]),
    }


def _held(table: Sequence[int]) -> Any:
    blocks = np.asarray(table, np.int64)
    return blocks[blocks != NO_BLOCK]


def _in_order_of_arena(codes: Any, pool: PoolSnapshot) -> Any:
    """The codes of the blocks in slabs that the pool holds; it may have had more slabs before."""
    size = pool.blocks_per_slab
    indexes = sorted(pool.slabs, key=pool.slabs.__getitem__)
    by_slab = codes[: len(codes) // size * size].reshape(-1, size)
    return by_slab[indexes].reshape(-1) if indexes else codes[:0]


def run_lengths(cells: Any) -> list[int]:
    """Each run of equal cells as its value and its length, one after the other."""
    if not cells.size:
        return []
    starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    lengths = np.diff(np.append(starts, cells.size))
    return [int(value) for value in np.stack([cells[starts], lengths], axis=1).reshape(-1)]
