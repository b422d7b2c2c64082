"""Tables of blocks: growing, sharing, copying before writing, windows, sinks, swapping and packing."""

from __future__ import annotations

import pytest

from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.kv.pool import NO_BLOCK
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams

FULL = GroupSpec("full", 256)


def manager_of(
    *groups: GroupSpec, num_slabs: int = 16, slab_bytes: int = 1024, block_tokens: int = 4, step: int = 8
) -> KVManager:
    arena = SlabArena(num_slabs * slab_bytes, slab_bytes)
    return KVManager(arena, list(groups or (FULL,)), block_tokens, max_step_tokens=step)


def request_of(num_tokens: int, first: int = 0) -> Request:
    return Request("r", "m", [first + index for index in range(num_tokens)], SamplingParams())


def compute(kv: KVManager, request: Request, num_tokens: int, plan: StepPlan | None = None) -> StepPlan:
    """Grow to this length and count it as computed."""
    plan = plan or StepPlan("m")
    if not request.tables:
        kv.attach_prefix(request)
    assert kv.grow(request, num_tokens, plan)
    request.num_computed_tokens = num_tokens
    kv.remember(request)
    kv.drop_out_of_window(request)
    return plan


def test_growing_takes_blocks_as_needed_and_tells_the_plan() -> None:
    kv, request = manager_of(), request_of(10)
    request.row = 3
    plan = compute(kv, request, 5)
    assert [(row, group, index) for row, group, index, _ in plan.table_updates] == [(3, 0, 0), (3, 0, 1)]
    assert [entry for *_, entry in plan.table_updates] == kv.table_entries(request, 0)
    assert not kv.needs_room(request, 8) and kv.needs_room(request, 9)
    assert compute(kv, request, 8).table_updates == []
    kv.check_integrity([request])
    kv.release(request)
    kv.check_integrity([])
    assert kv.usage().cached == 2


def test_a_failed_growth_takes_nothing() -> None:
    kv, request = manager_of(FULL, FULL, num_slabs=2), request_of(40)
    compute(kv, request, 8)
    before, plan = [list(table) for table in request.tables], StepPlan("m")
    assert not kv.grow(request, 20, plan)
    assert request.tables == before and plan.table_updates == []
    kv.check_integrity([request])


def test_a_prefix_is_shared_and_at_least_one_token_is_left() -> None:
    kv = manager_of()
    first, second = request_of(16), request_of(16)
    compute(kv, first, 16)
    assert kv.attach_prefix(second) == 12
    assert second.tables[0] == first.tables[0][:3]
    assert kv.usage().owned == 4
    kv.check_integrity([first, second])


def test_forks_share_the_prompt_and_copy_the_block_they_write() -> None:
    kv = manager_of()
    parent = request_of(10)
    compute(kv, parent, 10)
    children = [request_of(10) for _ in range(3)]
    plan = StepPlan("m")
    for child in children:
        assert kv.can_fork(parent, 9)
        kv.fork(parent, child, 9)
        assert kv.grow(child, 10, plan)
    assert kv.usage().owned == 3 + 3, "two full blocks are shared by all; each has a tail"
    assert len(plan.moves) == 3
    assert compute(kv, parent, 11).moves == [], "the last owner writes without a copy"
    kv.check_integrity([parent, *children])
    for request in (parent, *children):
        kv.release(request)
    kv.check_integrity([])


def test_a_fork_at_a_border_copies_nothing() -> None:
    kv, parent, child = manager_of(), request_of(9), request_of(9)
    compute(kv, parent, 9)
    kv.fork(parent, child, 8)
    plan = StepPlan("m")
    assert kv.grow(child, 9, plan) and plan.moves == []
    kv.check_integrity([parent, child])


@pytest.mark.parametrize("sinks", [0, 4, 6])
def test_a_window_frees_what_left_it_except_the_sinks(sinks: int) -> None:
    kv = manager_of(GroupSpec("window", 256, window=8, sink_tokens=sinks), FULL)
    request = request_of(64)
    for length in range(1, 65):
        compute(kv, request, length)
        first = max(0, length - 8 + 1) // 4
        sink_blocks = -(-sinks // 4)
        needed = {index for index in range(-(-length // 4)) if index >= first or index < sink_blocks}
        held = {index for index, block in enumerate(request.tables[0]) if block != NO_BLOCK}
        assert needed <= held and len(held) <= len(needed) + 1
        kv.check_integrity([request])
    assert NO_BLOCK not in request.tables[1], "a full group of the same model keeps its own"


def test_a_window_group_needs_only_the_window_for_a_hit() -> None:
    kv = manager_of(GroupSpec("window", 256, window=8, sink_tokens=2), FULL)
    first, second = request_of(40), request_of(40)
    compute(kv, first, 40)
    kv.release(first)
    assert kv.attach_prefix(second) == 36
    assert [block != NO_BLOCK for block in second.tables[0]] == [True, *[False] * 6, True, True]
    kv.check_integrity([second])
    kv.drop_out_of_window(second)
    kv.release(second)
    kv.check_integrity([])


def test_a_fork_needs_the_blocks_of_its_own_window() -> None:
    kv = manager_of(GroupSpec("window", 256, window=4))
    parent = request_of(40)
    compute(kv, parent, 20)
    assert kv.can_fork(parent, 19)
    compute(kv, parent, 40)
    assert not kv.can_fork(parent, 19)


@pytest.mark.parametrize("window", [1, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 8])
def test_a_lone_request_fits_whenever_it_was_promised_to(window: int, step: int) -> None:
    """Long beyond the window, in steps that cross borders at every offset, in as few slabs as are asked for."""
    group = GroupSpec("window", 256, window=window, sink_tokens=3)
    needed = manager_of(group, step=step, slab_bytes=256).slabs_for(10_000)
    for offset in range(4):
        kv = manager_of(group, step=step, slab_bytes=256, num_slabs=needed)
        assert kv.max_tokens_alone() >= 1 << 29
        request = request_of(120)
        compute(kv, request, offset + 1)
        while request.num_computed_tokens + step <= 120:
            compute(kv, request, request.num_computed_tokens + step)


def test_max_tokens_alone_counts_slabs_of_all_groups() -> None:
    kv = manager_of(FULL, GroupSpec("other", 512), num_slabs=3)
    assert kv.max_tokens_alone() == 16, "one slab of the one, two of the other"
    assert manager_of(FULL, GroupSpec("cross", 1024, cross=True), num_slabs=3).max_tokens_alone(8) == 16
    assert manager_of(FULL, GroupSpec("cross", 1024, cross=True), num_slabs=3).max_tokens_alone(12) == 0


def test_a_cross_group_holds_its_tokens_from_the_start() -> None:
    kv = manager_of(FULL, GroupSpec("cross", 512, cross=True))
    request, child = request_of(9), request_of(9)
    request.cross_tokens = child.cross_tokens = 6
    compute(kv, request, 1)
    assert [len(table) for table in request.tables] == [1, 2]
    compute(kv, request, 9)
    assert [len(table) for table in request.tables] == [3, 2]
    kv.fork(request, child, 8)
    assert child.tables[1] == request.tables[1]
    kv.check_integrity([request, child])


def test_swapping_out_and_in_keeps_the_entries() -> None:
    kv = manager_of(GroupSpec("window", 256, window=4), FULL)
    request, plan = request_of(20), StepPlan("m")
    compute(kv, request, 20)
    had_blocks = [[block != NO_BLOCK for block in table] for table in request.tables]
    spans = kv.spans(request)
    held = kv.swap_out(request)
    assert held == had_blocks and request.tables == []
    kv.check_integrity([request])
    assert kv.swap_in(request, held, plan)
    assert [[block != NO_BLOCK for block in table] for table in request.tables] == had_blocks
    assert [size for _, size in kv.spans(request)] == [size for _, size in spans]
    kv.check_integrity([request])


def test_scattered_blocks_are_packed_rather_than_in_the_way() -> None:
    """One group's few blocks lie in every slab; the other group needs a slab."""
    kv = manager_of(FULL, GroupSpec("large", 1024), num_slabs=6)
    others = [request_of(4, first=100 * index) for index in range(1, 4)]
    fillers = [request_of(12, first=1000 * index) for index in range(1, 4)]
    for other, filler in zip(others, fillers, strict=True):
        for request, blocks in ((other, 1), (filler, 3)):
            kv.attach_prefix(request)
            for _ in range(blocks):
                block = kv.pools[0].allocate()
                assert block is not None
                request.tables[0].append(block)
    for filler in fillers:
        kv.release(filler)
    assert [pool.is_scattered for pool in kv.pools] == [True, False]
    request, plan = request_of(16), StepPlan("m")
    kv.attach_prefix(request)
    others[0].row = 5
    assert not kv.grow(request, 16, StepPlan("m"), may_pack=False)
    assert kv.grow(request, 16, plan)
    assert plan.moves and all(row == 5 for row, *_ in plan.table_updates)
    kv.check_integrity([*others, request])


@pytest.mark.parametrize(
    "groups",
    [
        (FULL,),
        (GroupSpec("full", 512), GroupSpec("window", 256, window=6)),
        (FULL, GroupSpec("window", 768, window=9, sink_tokens=4)),
        (GroupSpec("self", 256), GroupSpec("cross", 1024, cross=True)),
    ],
    ids=lambda groups: "+".join(group.name for group in groups),
)
@pytest.mark.parametrize("num_tokens", [1, 4, 5, 13, 40])
@pytest.mark.parametrize("cross_tokens", [0, 7])
def test_as_many_requests_fit_as_are_admitted(
    groups: tuple[GroupSpec, ...], num_tokens: int, cross_tokens: int
) -> None:
    """Requests are computed block by block and kept, until one more does not fit."""
    kv = manager_of(*groups, num_slabs=23)
    admitted: list[Request] = []
    while True:
        request, plan = request_of(num_tokens, first=1000 * len(admitted)), StepPlan("m")
        request.cross_tokens = cross_tokens
        kv.attach_prefix(request)
        ends = [*range(kv.block_tokens, num_tokens, kv.block_tokens), num_tokens]
        if not all(_advance(kv, request, end, plan) for end in ends):
            break
        admitted.append(request)
        held = [sum(block != NO_BLOCK for block in table) for table in request.tables]
        assert held == kv.held_blocks(num_tokens, cross_tokens)
    kv.release(request)
    # A request that is computed holds one block more of each window than one that has been.
    spare = sum(group.window is not None for group in groups)
    assert len(admitted) <= kv.num_fitting(num_tokens, cross_tokens) <= len(admitted) + spare
    assert admitted


def _advance(kv: KVManager, request: Request, num_tokens: int, plan: StepPlan) -> bool:
    if not kv.grow(request, num_tokens, plan):
        return False
    request.num_computed_tokens = num_tokens
    kv.drop_out_of_window(request)
    return True
