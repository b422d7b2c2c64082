"""Answers that repeat themselves: noticed at the fourth copy of twenty tokens, ended, and said to be incomplete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.cli.talk.engine_voice import EngineAnswer
from antiphon.runtime.calls.events import TextDelta
from antiphon.runtime.voice.events import EndReason, ResponseDone, ResponseStatus
from antiphon.runtime.voice.repetition import RepetitionDetector
from antiphon.runtime.voice.services import Answer
from antiphon.server.apis.realtime.chat_answer import RealtimeChat
from antiphon.text.tool_calls.output_parser import OutputParser
from antiphon.text.tool_calls.pieces import Content
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_services import FakeServices, says

LOOP = list(range(100, 120))


def noticed_at(tokens: Sequence[int]) -> int | None:
    """Number of tokens after which the detector says so."""
    detector = RepetitionDetector()
    return next((index + 1 for index, token in enumerate(tokens) if detector.push([token])), None)


def test_the_fourth_copy_of_twenty_tokens_is_noticed() -> None:
    before = [1, 2, 3, 4, 5]
    assert noticed_at(before + LOOP * 4) == len(before) + 80
    assert noticed_at(before + LOOP * 3 + LOOP[:19] + [7] * 20) is None
    assert RepetitionDetector().push(before + LOOP * 4 + [7])  # in the middle of a delta


def test_other_lengths_of_a_loop() -> None:
    assert noticed_at([7] * 100) == 80
    assert noticed_at([7, 8, 9] * 40) == 80
    assert noticed_at(list(range(57)) * 4) == 4 * 57
    assert noticed_at(list(range(129)) * 6) is None


def test_an_answer_that_counts_is_no_loop() -> None:
    numbers = [token for number in range(300) for token in (number, 1000, 1001)]
    assert noticed_at(numbers) is None


class Stream:
    """A generation that repeats itself for ever; as the server reads one, and as an engine in the process does."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    async def read(self) -> list[tuple[int, TextDelta]]:
        await asyncio.sleep(0)
        return [(0, TextDelta("x", "again ", LOOP))]

    async def __aiter__(self) -> AsyncIterator[TextDelta]:
        while True:
            yield (await self.read())[0][1]


def server_answer(stream: Any, is_spoken: bool = True) -> Answer:
    chat: Any = SimpleNamespace(call=SimpleNamespace(prompt=[1, 2]), parser=OutputParser, text=lambda delta: delta.text)
    lease: Any = SimpleNamespace(close=lambda: None)
    return RealtimeChat(chat, stream, lease, is_spoken)


@pytest.mark.asyncio
@pytest.mark.parametrize("make", [server_answer, lambda stream: EngineAnswer(stream, OutputParser(), 2)])
async def test_an_answer_that_repeats_itself_is_ended(make: Any) -> None:
    stream = Stream()
    answer: Answer = make(stream)
    pieces = []
    with pytest.raises(StopAsyncIteration):
        while True:
            pieces.append(await answer.__anext__())
    assert pieces == [Content("again ")] * 4 and stream.is_closed
    assert answer.usage.is_repeating and (answer.usage.input_tokens, answer.usage.output_tokens) == (2, 80)


@pytest.mark.asyncio
async def test_a_written_answer_may_repeat_itself() -> None:
    answer = server_answer(Stream(), is_spoken=False)
    for _ in range(20):
        assert await answer.__anext__() == Content("again ")
    answer.close()


def test_the_response_is_incomplete() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says("again and again", is_repeating=True))
        async with Driver(services) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert (done.response.status, done.response.reason) == (ResponseStatus.INCOMPLETE, EndReason.REPETITION)
            driver.order.finish()

    run(talk())
