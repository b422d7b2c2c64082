"""`TimeLimit`: restarted, passed and cancelled."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.server.web.http.time_limit import TimeLimit

pytestmark = pytest.mark.asyncio


async def until_all_timers_ran() -> None:
    """Wait until a timer that was set after all others has run."""
    await asyncio.sleep(0.001)


async def test_a_restart_counts_from_then() -> None:
    limit = TimeLimit(1000.0, lambda: None)
    until = limit._timer.when()
    await until_all_timers_ran()
    limit.restart()
    assert limit._timer.when() > until
    limit.cancel()


async def test_a_limit_passes_once() -> None:
    passed: list[int] = []
    limit = TimeLimit(0.0, lambda: passed.append(1))
    await until_all_timers_ran()
    limit.restart()
    await until_all_timers_ran()
    assert passed == [1]


async def test_a_cancelled_limit_stays_cancelled() -> None:
    passed: list[int] = []
    limit = TimeLimit(0.0, lambda: passed.append(1))
    limit.cancel()
    limit.restart()
    await until_all_timers_ran()
    assert not passed
