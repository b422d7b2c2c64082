"""Turns right after each other: each is answered once, alone or together with others, in whatever order they end."""

from __future__ import annotations

import pytest

from antiphon.runtime.voice.events import ResponseDone, ResponseStarted, ResponseStatus, SpokenTextDelta, TranscriptDone
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_services import FakeServices, says, texts

FIRST, SECOND = "t1w0 t1w1 t1w2 t1w3", "t2w0 t2w1"


def slow_to_understand() -> FakeServices:
    """Transcripts are final when the next turn has begun."""
    services = FakeServices(lambda items, settings: says("yes, it is so", delay=0.2))
    services.delays.guess = lambda turn: 9.0
    services.delays.transcript = lambda turn: 0.6
    return services


async def two_turns(driver: Driver) -> None:
    await driver.say(800)
    await driver.be_silent(600)
    await driver.say(400)
    await driver.be_silent(600)


@pytest.mark.parametrize("second", ["dropped", "noise", "failed"])
def test_the_first_is_answered_when_the_second_comes_to_nothing(second: str) -> None:
    async def talk() -> None:
        services = slow_to_understand()
        services.delays.is_dropped = lambda turn: second == "dropped" and turn == 2
        services.delays.is_noise = lambda turn: second == "noise" and turn == 2
        services.delays.fails = lambda turn: second == "failed" and turn == 2
        async with Driver(services) as driver:
            await two_turns(driver)
            done = await driver.until(ResponseDone)
            assert done.response.status is ResponseStatus.COMPLETED
            assert [text for text in texts(services.answers[-1].items) if text] == [FIRST]
            await driver.rest()
            assert len(driver.all(ResponseStarted)) == 1

    run(talk())


@pytest.mark.parametrize("second", ["dropped", "noise"])
def test_an_answer_that_a_noise_ends_before_its_first_sound_is_given_again(second: str) -> None:
    async def talk() -> None:
        services = slow_to_understand()
        services.delays.transcript = lambda turn: 0.1
        services.speech_delay = 2.0
        services.delays.is_dropped = lambda turn: second == "dropped" and turn == 2
        services.delays.is_noise = lambda turn: second == "noise" and turn == 2
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(SpokenTextDelta)
            await driver.say(200)
            await driver.be_silent(600)
            done = await driver.until(ResponseDone, lambda event: event.response.status is ResponseStatus.COMPLETED)
            assert [event.response.status for event in driver.all(ResponseDone)] == ["cancelled", "completed"]
            assert [text for text in texts(services.answers[-1].items) if text] == [FIRST]
            assert done.response.output

    run(talk())


def test_an_answer_that_waits_for_a_later_turn_answers_that_too() -> None:
    """Owed to the first turn, it begins when the second has ended and its transcript is being made."""

    async def talk() -> None:
        services = slow_to_understand()
        services.delays.transcript = lambda turn: {1: 0.6, 2: 3.0}.get(turn, 0.1)
        services.delays.is_dropped = lambda turn: turn == 3
        async with Driver(services) as driver:
            await two_turns(driver)
            await driver.say(200)
            await driver.be_silent(600)
            await driver.until(TranscriptDone, lambda event: event.text == SECOND)
            await driver.until(ResponseDone)
            await driver.rest()
            assert len(driver.all(ResponseStarted)) == 1
            assert texts(services.answers[-1].items) == [FIRST, SECOND]

    run(talk())


def test_a_response_that_the_client_asks_for_answers_what_was_owed() -> None:
    async def talk() -> None:
        services = slow_to_understand()
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.say(300)
            await driver.until(TranscriptDone)
            driver.session.respond()
            await driver.until(ResponseDone)
            driver.session.clear()
            await driver.rest()
            assert len(driver.all(ResponseStarted)) == 1

    run(talk())


def test_without_interruption_every_turn_during_an_answer_is_answered_after_it() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says("one two three four five, " * 4 + "six", delay=0.2))
        async with Driver(services, VoiceSettings(interrupt_response=False)) as driver:
            await two_turns(driver)
            await driver.say(400)
            await driver.be_silent(600)
            first = await driver.until(ResponseDone)
            await driver.until(ResponseDone, lambda event: event is not first)
            await driver.rest(10)
            assert len(driver.all(ResponseStarted)) == 2
            said = [text for text in texts(services.answers[-1].items) if text.startswith("t")]
            assert said == [FIRST, SECOND, "t3w0 t3w1"]

    run(talk())
