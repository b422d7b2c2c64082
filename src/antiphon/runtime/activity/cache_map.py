"""`CacheMap`: the pages of a cache as runs of free, cached, shared and owned pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from antiphon.engine.kv.pool import NO_BLOCK, PoolSnapshot
from antiphon.engine.model_slot import ModelSlot

#: Codes of pages. A request's pages have FIRST_OWNER plus the request's index in `owners`.
FREE, CACHED, SHARED, FIRST_OWNER = 0, 1, 2, 3
#: Maximum cells of a map; larger caches show every n-th page.
MAX_CELLS = 8192


@dataclass(frozen=True)
class CacheSnapshot:
    """Copies of the records of a model's cache. `tables` has, for each request, its block ids by pool."""

    model: str
    device: str
    pools: list[tuple[str, PoolSnapshot]]  # by group name
    tables: list[tuple[str, list[list[int]]]]


def cache_snapshot(slot: ModelSlot) -> CacheSnapshot | None:
    """Copy the records of the model's cache in the engine's thread; return None if it has no cache."""
    kv = getattr(slot.scheduler, "kv", None)  # one-shot requests have no cache
    if kv is None:
        return None
    pools = [(group.name, pool.snapshot()) for group, pool in zip(kv.groups, kv.pools, strict=True)]
    holders = [request for request in slot.scheduler.requests() if request.tables]
    tables = [(request.id, [table[:] for table in request.tables]) for request in holders]
    return CacheSnapshot(slot.name, slot.device, pools, tables)


def held_bytes(slot: ModelSlot) -> int:
    """Return the bytes of the arena that a model's cache holds, including cached and free pages.

    Call it in the engine's thread.
    """
    kv = getattr(slot.scheduler, "kv", None)
    return 0 if kv is None else sum(len(pool.lent_slabs()) for pool in kv.pools) * kv.arena.slab_bytes


def cache_maps(snapshot: CacheSnapshot) -> list[dict[str, Any]]:
    """Return a map for each pool of a model's cache.

    `runs` are alternating codes and numbers of cells over the pool's pages in the order of the arena; a cell represents
    `pages_per_cell` pages by the code of the first of them.
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
    """Return the codes of the pool's blocks in the order of the arena, without slabs that the pool has returned."""
    size = pool.blocks_per_slab
    indexes = sorted(pool.slabs, key=pool.slabs.__getitem__)
    by_slab = codes[: len(codes) // size * size].reshape(-1, size)
    return by_slab[indexes].reshape(-1) if indexes else codes[:0]


def run_lengths(cells: Any) -> list[int]:
    """Return alternating values and lengths of the runs of equal cells."""
    if not cells.size:
        return []
    starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    lengths = np.diff(np.append(starts, cells.size))
    return [int(value) for value in np.stack([cells[starts], lengths], axis=1).reshape(-1)]
