"""The declarations of tasks: each has an implementation that fits it, and a new one runs in the engine process."""

from __future__ import annotations

import asyncio
from pkgutil import resolve_name
from typing import get_type_hints

import pytest

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import FinalEvent
from antiphon.runtime.calls.tasks import TASKS, TaskRequest
from antiphon.runtime.process.messages import inputs_of
from support.engine.counting_task import CountEnded, CountingClient, CountLetters, LetterCounted


@pytest.mark.parametrize("task", [*TASKS, CountLetters])
def test_an_implementation_takes_the_request_and_the_input_of_its_task(task: type[TaskRequest]) -> None:
    call = resolve_name(task.implementation)
    assert call.begin.__annotations__["request"] == task.__name__
    for method, message in inputs_of(task.control).items():
        wanted, found = get_type_hints(getattr(task.control, method)), get_type_hints(getattr(call, method))
        assert wanted == found and message.__struct_fields__ == ("id", *(name for name in wanted if name != "return"))
    assert CallControl in task.control.__mro__
    assert any(issubclass(event, FinalEvent) for event in task.yields)


def test_a_new_task_runs_in_the_engine_process() -> None:
    """Its events, its input in order, a rejection, an error while it runs, a cancellation, and input that is wrong."""
    TASKS.append(CountLetters)
    try:
        asyncio.run(count())
    finally:
        TASKS.remove(CountLetters)


async def count() -> None:
    client = CountingClient({"kv_bytes": 1 << 20})
    try:
        await client.start()
        async with client.count(CountLetters("one", "s")) as call:
            await call.accepted()
            call.add("sums")
            call.add("sea", times=3)
            call.finish()
            assert [event async for event in call] == [LetterCounted("sums", 2), LetterCounted("sea", 3), CountEnded(5)]

        with pytest.raises(InvalidRequestError, match="letter is 'st'; it must be one letter"):
            await client.count(CountLetters("two", "st")).accepted()

        call = client.count(CountLetters("three", "s"))
        call.add("caf\N{LATIN SMALL LETTER E WITH ACUTE}")
        with pytest.raises(InvalidRequestError, match="must be ASCII"):
            await anext(call)

        call = client.count(CountLetters("four", "s"))
        call.add("s")
        call.cancel()
        assert await anext(call) == LetterCounted("s", 1)
        with pytest.raises(EngineError, match="the count was cancelled at 1"):
            await anext(call)

        call = client.count(CountLetters("five", "s"))
        call.add("s", times="many")  # type: ignore[arg-type]
        with pytest.raises(EngineError, match="the count was cancelled at 0"):
            await anext(call)

        call = client.count(CountLetters("one", "s"))  # its id is free again
        call.close()
        assert not client._sink.open_ids and client.restarts == 0
    finally:
        await client.close()
