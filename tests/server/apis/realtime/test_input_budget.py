"""Limits of the sound that sessions send: each session's, and those of all sessions of a server."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pytest

from antiphon.server.apis.realtime.client_events import MAX_APPEND_BYTES
from antiphon.server.apis.realtime.input_budget import (
    LONGEST_APPEND_SECONDS,
    MAX_AHEAD_SECONDS,
    MAX_TURN_SECONDS,
    InputBudget,
)
from antiphon.server.apis.realtime.shared_input import BYTES_PER_SECOND, MAX_BYTES, RESERVED_SECONDS, SharedInput
from antiphon.server.apis.realtime.wire_errors import WireError


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def add(budget: InputBudget, seconds: float, *, is_kept: bool = False) -> None:
    budget.check(seconds, is_kept=is_kept)
    budget.add(seconds, is_kept=is_kept)


def test_sound_is_held_up_to_its_limit_and_heard_in_real_time() -> None:
    clock = Clock()
    budget = InputBudget(clock)
    for _ in range(3):
        add(budget, MAX_AHEAD_SECONDS / 3)
    with pytest.raises(WireError, match="301 s ahead of real time; at most 300 s") as raised:
        add(budget, 1.0)
    assert raised.value.code == "input_audio_buffer_full" and budget.held == MAX_AHEAD_SECONDS
    clock.now += 10
    add(budget, 10.0)
    clock.now += 1000
    assert budget.held == 0.0


def test_the_largest_append_is_accepted_alone() -> None:
    clock = Clock()
    budget = InputBudget(clock)
    longest = MAX_APPEND_BYTES / (2 * 24_000)
    assert MAX_AHEAD_SECONDS < longest <= LONGEST_APPEND_SECONDS
    add(budget, 0.5)
    add(budget, longest)
    with pytest.raises(WireError):
        add(budget, 0.1)
    clock.now += longest
    add(budget, longest)
    clock.now += 1000
    with pytest.raises(WireError):  # as long as G.711 can be
        add(budget, LONGEST_APPEND_SECONDS + 1)


def test_a_turn_that_the_client_ends_is_held_until_then() -> None:
    clock = Clock()
    budget = InputBudget(clock)
    for _ in range(6):
        add(budget, MAX_TURN_SECONDS / 6, is_kept=True)
        clock.now += 1000
    with pytest.raises(WireError, match="601 s of sound; at most 600 s"):
        add(budget, 1.0, is_kept=True)
    assert budget.held == MAX_TURN_SECONDS
    budget.taken()
    assert budget.held == 0.0
    add(budget, 1.0, is_kept=True)


def test_sound_that_waits_for_hearing_is_held() -> None:
    assert InputBudget(Clock(), waiting=lambda: 7.0).held == 7.0


def opened(shared: SharedInput, clock: Clock) -> InputBudget:
    budget = InputBudget(clock)
    shared.open(budget)
    return budget


async def fill(shared: SharedInput, clock: Clock) -> list[InputBudget]:
    """Open sessions that hold as much as there is; return them."""
    budgets = []
    with pytest.raises(WireError):
        while True:
            budgets.append(opened(shared, clock))
            await shared.reserve(budgets[-1], MAX_AHEAD_SECONDS, is_kept=False)
    return budgets[:-1]


@pytest.mark.asyncio
async def test_all_sessions_hold_no_more_than_256_mib() -> None:
    clock = Clock()
    shared = SharedInput(64, patience_seconds=0.0)
    budgets = await fill(shared, clock)
    assert len(budgets) == 12  # the rest is reserved for sessions that send as they speak
    late = opened(shared, clock)
    with pytest.raises(WireError, match=r"hold 220 MiB of sound, and 18.3 MiB more exceed its limit") as raised:
        await shared.reserve(late, 300.0, is_kept=False)
    assert raised.value.code == "memory_busy" and late.held == 0.0
    held = sum(budget.held for budget in budgets) * BYTES_PER_SECOND
    assert held + (64 - 12) * RESERVED_SECONDS * BYTES_PER_SECOND <= MAX_BYTES


@pytest.mark.asyncio
async def test_every_session_may_hold_its_reserve() -> None:
    clock = Clock()
    shared = SharedInput(64, patience_seconds=0.0)
    await fill(shared, clock)
    budget = opened(shared, clock)
    for _ in range(1000):  # as one speaks
        await shared.reserve(budget, 1.0, is_kept=False)
        clock.now += 1.0
    many = SharedInput(10_000, patience_seconds=0.0)  # whose reserves together fit too
    await many.reserve(opened(many, clock), 0.1, is_kept=False)


@pytest.mark.asyncio
async def test_an_append_waits_for_memory() -> None:
    clock = Clock()
    shared = SharedInput(64, patience_seconds=60.0)
    impatient = SharedInput(64, patience_seconds=0.0)
    budgets = await fill(impatient, clock)
    for budget in budgets:
        shared.open(budget)
    late = opened(shared, clock)
    waiting = asyncio.create_task(shared.reserve(late, 300.0, is_kept=False))
    await asyncio.sleep(0)
    assert not waiting.done() and late.held == 0.0
    shared.close(budgets[0])  # its client has left
    await waiting
    assert late.held == 300.0


@pytest.mark.asyncio
async def test_sessions_take_turns_in_the_thread() -> None:
    shared = SharedInput(64)
    running = threading.Lock()
    done: list[str] = []

    def work(name: str) -> None:
        assert running.acquire(blocking=False)
        done.append(name)
        running.release()

    async def session(name: str) -> None:
        for _ in range(3):
            await shared.converted(lambda: work(name))

    await asyncio.gather(*(session(name) for name in "abc"))
    assert done == list("abc") * 3
