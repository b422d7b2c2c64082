"""Failures of the engine, and closing at any time: the session goes on, or ends, and leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.voice.dialogue import listening
from antiphon.runtime.voice.events import (
    BufferCleared,
    ItemAdded,
    ResponseDone,
    ResponseStatus,
    SessionError,
    SoundDelta,
    TranscriptFailed,
    UserSpeechStarted,
)
from antiphon.runtime.voice.items import Item, Message, Role, TextPart
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_hearing import HearingDelays
from support.voice.fake_services import AnswerScript, FakeServices, FakeSynthesis, says, texts

MANUAL = VoiceSettings(turns=TurnSettings(TurnDetection.MANUAL))
LONG = "one two three four five, six seven eight nine ten, the end"


def test_an_engine_that_dies_during_an_answer() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says(LONG, delay=0.1))
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(SoundDelta)
            services.kill()
            failed = await driver.until(ResponseDone)
            assert failed.response.status is ResponseStatus.FAILED
            assert failed.response.error == ("engine_error", "the engine process died")
            errors = driver.all(SessionError)
            assert errors and not any(error.is_request for error in errors)
            assert texts(driver.session.items)[1] == "one two three four five,"  # all that was sent is heard
            await driver.be_silent(3000)
            await driver.say(600)
            started = driver.all(UserSpeechStarted)[1]
            assert started.start_ms == pytest.approx(4100, abs=400)  # of the session's sound
            await driver.be_silent(600)
            await driver.until(ResponseDone, lambda event: event.response.status is ResponseStatus.COMPLETED)
            assert len(services.hearings) == 2
            driver.order.finish()

    run(talk())


def test_an_engine_that_dies_while_the_person_speaks() -> None:
    async def talk() -> None:
        services = FakeServices()
        async with Driver(services) as driver:
            await driver.say(800)
            services.kill()
            await driver.be_silent(200)
            assert driver.kinds == ["UserSpeechStarted", "SessionError", "UserSpeechStopped"]

    run(talk())


def test_a_turn_whose_transcript_is_lost() -> None:
    async def talk() -> None:
        services = FakeServices(delays=HearingDelays(guess=lambda turn: 9.0, transcript=lambda turn: 2.0))
        async with Driver(services, MANUAL) as driver:
            await driver.say(800)
            driver.session.commit()
            driver.session.respond()
            await driver.rest(0.5)
            services.kill()
            failed = await driver.until(ResponseDone)
            assert failed.response.status is ResponseStatus.FAILED
            assert len(driver.all(TranscriptFailed)) == 1
            driver.order.finish()

    run(talk())


def test_commands_that_wait_for_a_lost_commit_are_carried_out() -> None:
    async def talk() -> None:
        services = FakeServices(restart_seconds=1.0)
        async with Driver(services, MANUAL) as driver:
            services.kill()  # before hearing is open
            await driver.say(500)
            driver.session.clear()
            driver.session.commit("mine")
            driver.session.add_item(Message("item_1", Role.USER, (TextPart("hello"),)))
            await driver.until(ItemAdded)
            errors = driver.all(SessionError)
            assert [error.tag for error in errors] == [None, "mine"]
            assert len(driver.all(BufferCleared)) == 1

    run(talk())


def test_an_engine_that_is_away_is_reported_once_and_asked_again() -> None:
    async def talk() -> None:
        services = FakeServices(restart_seconds=30.0)
        async with Driver(services) as driver:
            services.kill()
            await driver.be_silent(40_000)
            assert len(driver.all(SessionError)) == 1
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            assert driver.all(UserSpeechStarted)[0].start_ms == pytest.approx(39_700, abs=200)

    run(talk())


def test_sound_waits_until_hearing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            driver.session.push(np.ones(16_000, np.float32))
            driver.session.push(np.ones(32_000, np.float32))  # more than may wait
            driver.session.push(np.ones(32_000, np.float32))
            driver.session.commit()
            driver.session.respond()
            await driver.until(ResponseDone)
            assert [error.code for error in driver.all(SessionError)] == ["input_audio_buffer_overflow"]
            assert texts(driver.session.items)[0] == "t1w0 t1w1 t1w2 t1w3 t1w4"

    monkeypatch.setattr(listening, "MAX_WAITING", 2.0)
    run(talk())


@pytest.mark.parametrize("error", [EngineError("a step failed"), InvalidRequestError("the prompt is too long")])
def test_an_answer_that_fails(error: Exception) -> None:
    """The session's error is the engine's alone; a request that cannot be carried out fails its response."""

    async def talk() -> None:
        services = FakeServices(lambda items, settings: AnswerScript(says("well").pieces, error=error))
        async with Driver(services, MANUAL) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            is_engine = isinstance(error, EngineError)
            assert done.response.error == ("engine_error" if is_engine else "invalid_request", str(error))
            assert len(driver.all(SessionError)) == is_engine

    run(talk())


def test_a_speculative_answer_that_fails_is_made_again() -> None:
    async def talk() -> None:
        def script(items: Sequence[Item], settings: VoiceSettings) -> AnswerScript:
            return says("well") if services.answers else AnswerScript([], error=EngineError("a step failed"))

        services = FakeServices(script)
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            done = await driver.until(ResponseDone)
            assert done.response.status is ResponseStatus.COMPLETED and len(services.answers) == 2

    run(talk())


class BrokenSpeech(FakeSynthesis):
    """Fails after the first chunk."""

    async def __anext__(self) -> SpeechChunk:
        if self._seconds:
            raise EngineError("the model made no sound")
        return await super().__anext__()


class EmptySpeech(FakeSynthesis):
    async def __anext__(self) -> SpeechChunk:
        raise InvalidRequestError("there is nothing in the text that can be spoken")


def test_speech_that_fails_ends_the_answer_at_once() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says(LONG, delay=0.2), synthesis=BrokenSpeech)
        async with Driver(services, MANUAL) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert done.response.status is ResponseStatus.FAILED
            assert services.answers[0].is_closed and services.answers[0].usage.output_tokens < len(LONG.split())

    run(talk())


def test_a_text_with_nothing_to_speak_is_no_failure() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says("…"), synthesis=EmptySpeech)
        async with Driver(services, MANUAL) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert done.response.status is ResponseStatus.COMPLETED
            assert texts(done.response.output) == ["…"]

    run(talk())


@pytest.mark.parametrize("after_ms", range(0, 3000, 150))
def test_closing_at_any_time(after_ms: int) -> None:
    """The driver checks that no call and no task is left."""

    async def client(driver: Driver) -> None:
        await driver.say(600)
        await driver.be_silent(900)
        await driver.say(600)
        await driver.be_silent(900)

    async def talk() -> None:
        services = FakeServices(lambda items, settings: says(LONG, delay=0.02))
        async with Driver(services) as driver:
            talking = asyncio.get_running_loop().create_task(client(driver))
            await asyncio.sleep(after_ms / 1000 + 0.0071)  # when everything that was emitted has been read
            num_events = len(driver.events)
            driver.session.close()
            assert not services.open_calls
            driver.session.respond()
            driver.session.commit()
            await talking
            assert len(driver.events) == num_events

    run(talk())
