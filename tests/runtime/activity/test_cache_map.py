"""The pages of a cache as runs: every page once, with the books' own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from antiphon.engine.kv.manager import GroupSpec
from antiphon.runtime.activity import cache_map
from antiphon.runtime.activity.cache_map import CACHED, FIRST_OWNER, FREE, SHARED, cache_maps, cache_snapshot
from support.engine.engine_world import ModelSetup, World, with_config

SETUP = with_config(ModelSetup(), max_running=4, chunk_tokens=64)


def maps(world: World, model: str = "chat") -> list[dict[str, Any]]:
    snapshot = cache_snapshot(world.core.slots[model])
    assert snapshot is not None
    return cache_maps(snapshot)


def cells(pool: dict[str, Any]) -> list[int]:
    runs = pool["runs"]
    return [code for code, count in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]


def test_an_empty_cache() -> None:
    world = World(8)
    world.add_model("chat", SETUP)
    [pool] = maps(world)
    assert pool["runs"] == [] and pool["num_pages"] == 0 and pool["owners"] == []


def test_pages_of_requests_and_cached_ones() -> None:
    world = World(8)
    world.add_model("chat", SETUP)
    first = world.add("chat", list(range(8)), 2)
    world.drain()
    one, two = world.add("chat", list(range(100, 110)), 20), world.add("chat", list(range(200, 205)), 20)
    world.core.step()
    [pool] = maps(world)
    counts = world.models["chat"].scheduler.kv.pools[0].counts()
    found = cells(pool)
    assert len(found) == pool["num_pages"] == counts.free + counts.cached + counts.owned
    assert found.count(FREE) == counts.free and found.count(CACHED) == counts.cached > 0
    by_id = {owner: found.count(FIRST_OWNER + index) for index, owner in enumerate(pool["owners"])}
    assert by_id == {one.id: 3, two.id: 2} and first.id not in by_id
    assert pool["page_bytes"] == 256 and pool["pages_per_cell"] == 1


def test_pages_that_two_requests_hold_are_shared() -> None:
    world = World(8)
    world.add_model("chat", SETUP)
    parent = world.add("chat", list(range(8)), 20)
    world.core.step()
    world.add("chat", list(range(8)), 20)  # finds the first page in the cache
    world.core.step()
    [pool] = maps(world)
    table = parent.tables[0]
    refs = world.models["chat"].scheduler.kv.pools[0].ref_counts
    assert cells(pool).count(SHARED) == sum(refs[block] > 1 for block in table) == 1


def test_each_group_has_a_map_and_freed_pages_are_left_out() -> None:
    groups = (GroupSpec("full", 256), GroupSpec("window", 256, window=8))
    world = World(32)
    world.add_model("chat", with_config(ModelSetup(groups=groups), max_running=4, chunk_tokens=8))
    request = world.add("chat", list(range(40)), 4)
    for _ in range(5):
        world.core.step()
    assert -1 in request.tables[1]
    full, window = maps(world)
    assert (full["group"], window["group"]) == ("full", "window")
    assert cells(full).count(FIRST_OWNER) > cells(window).count(FIRST_OWNER) > 0


def test_pages_stand_in_the_order_of_the_arena() -> None:
    """Slabs that go back to the arena leave the map, also from its middle."""
    world = World(8)
    world.add_model("chat", with_config(ModelSetup(prefix_caching=False), max_running=4, chunk_tokens=64))
    requests = [world.add("chat", list(range(16)), 40) for _ in range(3)]
    world.core.step()
    pool = world.models["chat"].scheduler.kv.pools[0]
    before = maps(world)[0]["num_pages"]
    world.cancel(requests[1])
    [left] = maps(world)
    assert left["num_pages"] == len(pool.lent_slabs()) * pool.blocks_per_slab < before
    assert left["owners"] == [requests[0].id, requests[2].id]


def test_a_large_map_shows_every_nth_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_map, "MAX_CELLS", 3)
    world = World(8)
    world.add_model("chat", SETUP)
    world.add("chat", list(range(30)), 4)
    world.core.step()
    [pool] = maps(world)
    assert pool["pages_per_cell"] == -(-pool["num_pages"] // 3) and len(cells(pool)) <= 3


def test_run_lengths() -> None:
    assert cache_map.run_lengths(np.array([0, 0, 5, 5, 5, 1])) == [0, 2, 5, 3, 1, 1]
    assert cache_map.run_lengths(np.array([], np.int64)) == []
