"""Speech while an answer is made or heard."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.runtime.voice.events import (
    EndReason,
    ItemTruncated,
    OutputItemAdded,
    ResponseDone,
    ResponseStarted,
    ResponseStatus,
    SessionError,
    SoundDelta,
    UserSpeechStarted,
)
from antiphon.runtime.voice.items import FunctionCall, ItemStatus, Message
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_services import AnswerScript, FakeAnswer, FakeServices, FakeSynthesis, says, texts

LONG = "one two three four five, six seven eight nine ten, " * 3 + "the end"


def answering(delay: float) -> FakeServices:
    """At 0.01 s a word an answer is complete long before it has been heard."""
    return FakeServices(lambda items, settings: says(LONG, delay=delay))


async def ask(driver: Driver) -> None:
    """Say something and wait until the first sound of the answer."""
    await driver.say(800)
    await driver.be_silent(600)
    await driver.until(SoundDelta)


def test_the_engine_is_told_before_anything_is_emitted() -> None:
    async def talk() -> None:
        services = answering(0.3)
        async with Driver(services) as driver:
            happened: list[Any] = []
            emit = driver.session._context.emit

            def note(event: Any) -> None:
                happened.append(event)
                emit(event)

            driver.session._context.emit = note  # type: ignore[method-assign]
            services.on_close = happened.append
            await ask(driver)
            await driver.say(300)
            await driver.until(ResponseDone)
            index = max(index for index, event in enumerate(happened) if isinstance(event, UserSpeechStarted))
            assert {type(event) for event in happened[index - 2 : index]} == {FakeAnswer, FakeSynthesis}
            assert [type(event).__name__ for event in happened[index + 1 :]] == [
                "SoundDone", "SpokenTextDone", "PartDone", "ItemDone", "OutputItemDone", "ResponseDone",
            ]  # fmt: skip

    run(talk())


@pytest.mark.parametrize("delay", [0.01, 0.2], ids=["complete", "in progress"])
def test_the_history_keeps_what_was_heard(delay: float) -> None:
    """By our own pace until the client says what it played."""

    async def talk() -> None:
        async with Driver(answering(delay)) as driver:
            await ask(driver)
            await driver.be_silent(1500)  # 0.4 s a word
            await driver.say(300)
            done = await driver.until(ResponseDone)
            is_complete = delay < 0.1
            assert done.response.status is (ResponseStatus.COMPLETED if is_complete else ResponseStatus.CANCELLED)
            assert done.response.reason is (None if is_complete else EndReason.TURN_DETECTED)
            item = driver.session.items[1]
            assert isinstance(item, Message)
            assert item.text in ("one two three four", "one two three four five,")
            driver.session.truncate(item.id, 0, 900)
            await driver.until(ItemTruncated)
            assert texts(driver.session.items)[1] == "one two"
            driver.session.truncate(item.id, 0, 2000)
            assert texts(driver.session.items)[1] == "one two three four five,"
            driver.session.truncate(item.id, 0, 0)
            assert texts(driver.session.items)[1] == ""
            await driver.be_silent(600)
            await driver.until(ResponseStarted, lambda event: event.response.id != done.response.id)
            assert len(texts(driver.services.answers[-1].items)) == 3

    run(talk())


def test_a_message_that_is_heard_while_the_model_calls_a_function_is_interrupted_too() -> None:
    async def talk() -> None:
        arguments = [CallArguments(0, "x") for _ in range(100)]
        script = AnswerScript([Content("one two three four five,"), CallStart(0, "look"), *arguments])
        async with Driver(FakeServices(lambda items, settings: script)) as driver:
            await ask(driver)
            await driver.until(OutputItemAdded, lambda event: isinstance(event.item, FunctionCall))
            await driver.say(300)
            done = await driver.until(ResponseDone)
            assert done.response.reason is EndReason.TURN_DETECTED
            assert texts(driver.session.items)[1] in ("one", "one two")

    run(talk())


@pytest.mark.parametrize(
    ("milliseconds", "heard"), [(400, ["one two", ""]), (1900, ["one two three four five,", "six"])]
)
def test_an_answer_is_heard_after_the_one_before_it(milliseconds: int, heard: list[str]) -> None:
    """The second one is made at once, as after the output of a function."""

    async def talk() -> None:
        answers = ["one two three four five,", "six seven eight nine ten,"]
        async with Driver(FakeServices(lambda items, settings: says(answers.pop(0), delay=0.01))) as driver:
            await ask(driver)
            first = await driver.until(ResponseDone)
            driver.session.respond()
            await driver.until(ResponseDone, lambda event: event is not first)
            await driver.be_silent(milliseconds)
            answers += ["no"]
            await driver.say(200)
            assert texts(driver.session.items)[1:3] == heard

    run(talk())


def test_a_client_that_cancels_stops_playing() -> None:
    """Also what it still had of the answer before."""

    async def talk() -> None:
        delays = [0.01, 1.0]
        async with Driver(FakeServices(lambda items, settings: says(LONG, delay=delays.pop(0)))) as driver:
            await ask(driver)
            await driver.until(ResponseDone)
            driver.session.respond()
            await driver.be_silent(700)
            driver.session.cancel()
            await driver.until(ResponseDone, lambda event: event.response.reason is EndReason.CLIENT_CANCELLED)
            assert texts(driver.session.items)[1] in ("one two", "one two three")
            await driver.be_silent(1000)
            assert driver.services.hearings[0].min_speech == 0

    run(talk())


def test_a_truncate_beyond_the_sound_is_an_error_and_the_session_goes_on() -> None:
    async def talk() -> None:
        async with Driver(answering(0.2)) as driver:
            await ask(driver)
            item_id = driver.all(SoundDelta)[0].place.item_id
            driver.session.truncate(item_id, 0, 60_000, "mine")
            error = await driver.until(SessionError)
            assert (error.code, error.param, error.tag) == ("invalid_value", "audio_end_ms", "mine")
            assert "60000" in error.message and "2000 ms" in error.message
            await driver.say(300)
            await driver.be_silent(600)
            await driver.until(ResponseDone, lambda event: event.response.status is ResponseStatus.COMPLETED)

    run(talk())


def test_short_sounds_do_not_interrupt_an_answer_that_is_heard() -> None:
    async def talk() -> None:
        async with Driver(answering(0.05)) as driver:
            await ask(driver)
            hearing = driver.services.hearings[0]
            assert hearing.min_speech == 200
            await driver.say(100)
            await driver.be_silent(600)
            assert len(driver.all(UserSpeechStarted)) == 1
            await driver.be_silent(16_000)
            assert hearing.min_speech == 0
            await driver.say(100)
            assert len(driver.all(UserSpeechStarted)) == 2

    run(talk())


def test_without_interruption_the_turn_is_answered_after_the_response() -> None:
    async def talk() -> None:
        async with Driver(answering(0.2), VoiceSettings(interrupt_response=False)) as driver:
            await ask(driver)
            await driver.say(300)
            await driver.be_silent(600)
            first = await driver.until(ResponseDone)
            assert first.response.status is ResponseStatus.COMPLETED
            second = await driver.until(ResponseDone, lambda event: event is not first)
            assert texts(driver.services.answers[-1].items) == ["t1w0 t1w1 t1w2 t1w3", LONG, "t2w0"]
            assert second.response.status is ResponseStatus.COMPLETED

    run(talk())


def test_speech_before_the_answer_has_begun_is_answered_together_with_it() -> None:
    async def talk() -> None:
        services = answering(0.05)
        services.delays.guess = lambda turn: 9.0
        services.delays.transcript = lambda turn: 0.6
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.say(400)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            assert len(driver.all(ResponseStarted)) == 1
            assert texts(services.answers[0].items) == ["t1w0 t1w1 t1w2 t1w3", "t2w0 t2w1"]

    run(talk())


def test_what_was_said_is_answered_when_the_next_turn_was_no_speech() -> None:
    async def talk() -> None:
        services = answering(0.01)
        services.delays.guess = lambda turn: 9.0
        services.delays.transcript = lambda turn: 0.6
        services.delays.is_dropped = lambda turn: turn == 2
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.say(400)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            assert texts(services.answers[0].items) == ["t1w0 t1w1 t1w2 t1w3"]

    run(talk())


def test_a_written_answer_keeps_all_that_was_written() -> None:
    async def talk() -> None:
        services = answering(0.2)
        async with Driver(services, VoiceSettings(modality=Modality.TEXT)) as driver:
            await driver.say(800)
            await driver.be_silent(1500)
            await driver.say(300)
            done = await driver.until(ResponseDone)
            (item,) = done.response.output
            assert isinstance(item, Message) and item.status is ItemStatus.INCOMPLETE
            assert LONG.startswith(item.text) and item.text
            assert not any(isinstance(event, SoundDelta) for event in driver.events)

    run(talk())


def test_a_client_cancels() -> None:
    async def talk() -> None:
        async with Driver(answering(0.2)) as driver:
            driver.session.cancel(tag="early")
            assert (await driver.until(SessionError)).tag == "early"
            await ask(driver)
            driver.session.cancel()
            done = await driver.until(ResponseDone)
            assert done.response.reason is EndReason.CLIENT_CANCELLED
            assert {type(call).__name__ for call in driver.services.open_calls} == {"FakeHearing"}

    run(talk())


class RecordingEcho:
    """Notes what it is told was played."""

    def __init__(self) -> None:
        self.played_at: list[tuple[int, float]] = []
        self.stopped_at: list[float] = []

    def played(self, samples: Any, at: float) -> None:
        self.played_at.append((len(samples), at))

    def stopped(self, at: float) -> None:
        self.stopped_at.append(at)

    def clean(self, samples: Any) -> Any:
        return samples * 0.9


def test_what_is_played_is_taken_out_of_what_is_heard() -> None:
    async def talk() -> None:
        echo = RecordingEcho()
        async with Driver(answering(0.01), echo=echo) as driver:
            await ask(driver)
            await driver.until(ResponseDone)
            times = [at for _, at in echo.played_at]
            assert times == sorted(times) and len(times) == len(driver.all(SoundDelta))
            assert times[1] - times[0] == pytest.approx(2000, abs=150)  # one after the other
            assert sum(count for count, _ in echo.played_at) == pytest.approx(32 * 0.4 * 16_000, rel=0.05)
            assert echo.stopped_at == []
            await driver.say(400)
            (stopped,) = echo.stopped_at
            assert driver.all(UserSpeechStarted)[-1].start_ms < stopped < times[-1]

    run(talk())


def test_what_is_not_played_any_more_is_not_taken_out() -> None:
    async def talk() -> None:
        echo = RecordingEcho()
        async with Driver(answering(0.2), echo=echo) as driver:
            await ask(driver)
            driver.session.cancel()
            assert len(echo.stopped_at) == 1

    run(talk())
