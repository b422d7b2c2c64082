"""A turn by voice: order of events, speculation, prefill, the waterfall."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.runtime.calls.turn_settings import TurnSettings
from antiphon.runtime.voice.events import (
    IdleTimedOut,
    ResponseDone,
    ResponseStarted,
    ResponseStatus,
    SoundDelta,
    SpokenTextDelta,
    TranscriptDelta,
    TranscriptDone,
    TranscriptFailed,
    TranscriptUnsettled,
    UserSpeechStarted,
    UserSpeechStopped,
)
from antiphon.runtime.voice.items import Message, Role, TextPart
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_hearing import HearingDelays
from support.voice.fake_services import FakeServices, says, texts


def test_the_documented_order() -> None:
    async def talk() -> None:
        async with Driver(FakeServices()) as driver:
            await driver.be_silent(300)
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            driver.order.finish()
            assert driver.kinds == [
                "UserSpeechStarted", "UserSpeechStopped", "BufferCommitted", "ItemAdded", "ItemDone", "TranscriptDelta",
                "TranscriptDone", "ResponseStarted", "OutputItemAdded", "ItemAdded", "PartAdded", "SpokenTextDelta",
                "SoundDelta", "SoundDone", "SpokenTextDone", "PartDone", "ItemDone", "OutputItemDone", "ResponseDone",
            ]  # fmt: skip
            assert texts(driver.session.items) == ["t1w0 t1w1 t1w2 t1w3", "yes, it is so"]
            assert (driver.all(UserSpeechStarted)[0].start_ms, driver.all(UserSpeechStopped)[0].end_ms) == (0, 1100)

    run(talk())


def test_sound_goes_out_while_the_rest_is_written() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says("first this, " + "then that " * 20))
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            kinds = [type(event) for event in driver.events]
            assert kinds.index(SoundDelta) < max(index for index, kind in enumerate(kinds) if kind is SpokenTextDelta)

    run(talk())


def test_the_answer_is_begun_on_a_guess_and_emitted_when_the_turn_has_ended() -> None:
    async def talk() -> None:
        services = FakeServices()
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(400)
            assert len(services.answers) == 1
            assert not driver.all(ResponseStarted)
            await driver.be_silent(200)
            done = await driver.until(ResponseDone)
            assert len(services.answers) == 1
            assert texts(services.answers[0].items) == ["t1w0 t1w1 t1w2 t1w3"]
            waterfall = done.response.waterfall
            assert waterfall.answer_started is not None and waterfall.turn_decided is not None
            assert waterfall.answer_started < waterfall.turn_decided
            assert done.response.usage.input_seconds > 0 and done.response.usage.output_seconds == pytest.approx(1.6)

    run(talk())


def test_a_turn_that_goes_on_voids_the_answer_to_its_beginning() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says("a long answer " * 20))
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(400)
            await driver.say(400)
            assert services.answers[0].is_closed
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            assert texts(services.answers[1].items) == ["t1w0 t1w1 t1w2 t1w3 t1w4 t1w5"]
            assert len(driver.all(ResponseStarted)) == 1

    run(talk())


@pytest.mark.parametrize("change", ["item", "settings"])
def test_an_answer_to_another_conversation_is_not_used(change: str) -> None:
    async def talk() -> None:
        services = FakeServices()
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(400)
            if change == "item":
                driver.session.add_item(Message("item_1", Role.SYSTEM, (TextPart("Be brief."),)))
            else:
                driver.session.configure(replace(driver.session.settings, instructions="Be brief."))
            await driver.be_silent(200)
            await driver.until(ResponseDone)
            assert len(services.answers) == 2 and services.answers[0].is_closed
            assert len(driver.all(ResponseStarted)) == 1

    run(talk())


def test_without_a_guess_the_answer_waits_for_the_transcript() -> None:
    async def talk() -> None:
        services = FakeServices(delays=HearingDelays(guess=lambda turn: 9.0, transcript=lambda turn: 0.7))
        async with Driver(services) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            done = await driver.until(ResponseDone)
            assert driver.kinds.index("TranscriptDone") < driver.kinds.index("ResponseStarted")
            path = done.response.waterfall.critical_path()
            assert path[-1].waited_for == "sound_made"
            assert [stage.name for stage in path][-5:] == [
                "answer_started", "first_token", "first_clause", "sound_made", "first_sound",
            ]  # fmt: skip

    run(talk())


def test_the_prompt_is_prefilled_while_the_person_speaks() -> None:
    async def talk() -> None:
        services = FakeServices()
        async with Driver(services) as driver:
            await driver.say(2200)
            settled = [texts(items) for items in services.prefills]
            assert settled == [[], ["t1w0 t1w1"], ["t1w0 t1w1 t1w2 t1w3 t1w4 t1w5 t1w6"]]
            assert "".join(delta.text for delta in driver.all(TranscriptDelta)) == settled[-1][0]
            await driver.be_silent(600)
            done = await driver.until(TranscriptDone)
            assert "".join(delta.text for delta in driver.all(TranscriptDelta)) == done.text

    run(talk())


def test_unsettled_words_are_shown_if_they_are_wanted() -> None:
    async def talk(is_wanted: bool) -> tuple[str, list[str]]:
        async with Driver(FakeServices(), VoiceSettings(show_unsettled=is_wanted)) as driver:
            await driver.say(2200)
            settled = "".join(delta.text for delta in driver.all(TranscriptDelta))
            await driver.be_silent(600)
            await driver.until(TranscriptDone)
            return settled, [event.text for event in driver.all(TranscriptUnsettled)]

    settled = "t1w0 t1w1 t1w2 t1w3 t1w4 t1w5 t1w6"
    assert run(talk(True)) == (settled, [" t1w2 t1w3 t1w4", " t1w7 t1w8 t1w9"])
    assert run(talk(False)) == (settled, [])


def test_what_nothing_was_understood_of_is_not_answered() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(delays=HearingDelays(is_noise=lambda turn: True))) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.rest()
            assert driver.all(TranscriptDone)[0].text == ""
            assert not driver.all(ResponseStarted)

    run(talk())


def test_what_was_no_speech_leaves_nothing_behind() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(delays=HearingDelays(is_dropped=lambda turn: True))) as driver:
            await driver.say(200)
            await driver.be_silent(600)
            await driver.rest()
            assert driver.kinds == ["UserSpeechStarted", "UserSpeechStopped"]
            assert driver.session.items == ()

    run(talk())


def test_a_transcript_that_fails_gets_no_answer() -> None:
    async def talk() -> None:
        delays = HearingDelays(guess=lambda turn: 9.0, fails=lambda turn: turn == 1)
        async with Driver(FakeServices(delays=delays)) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(TranscriptFailed)
            assert not driver.all(ResponseStarted)
            driver.session.respond()  # of what could not be understood
            failed = await driver.until(ResponseDone)
            assert failed.response.status is ResponseStatus.COMPLETED

    run(talk())


def test_a_transcription_session_answers_nothing() -> None:
    async def talk() -> None:
        services = FakeServices()
        async with Driver(services, VoiceSettings(answer=False)) as driver:
            for _ in range(2):
                await driver.say(800)
                await driver.be_silent(800)
            await driver.rest()
            assert [done.text for done in driver.all(TranscriptDone)] == [
                "t1w0 t1w1 t1w2 t1w3",
                "t2w0 t2w1 t2w2 t2w3",
            ]
            assert services.answers == services.prefills == []

    run(talk())


def test_transcripts_that_are_not_asked_for_are_made_all_the_same() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), VoiceSettings(show_transcripts=False)) as driver:
            await driver.say(1400)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            assert not driver.all(TranscriptDone) and not driver.all(TranscriptDelta)
            assert texts(driver.session.items)[0].startswith("t1w0")

    run(talk())


def test_silence_after_an_answer_is_answered_once_the_timeout_has_passed() -> None:
    async def talk() -> None:
        settings = VoiceSettings(turns=TurnSettings(idle_timeout_ms=2000))
        async with Driver(FakeServices(), settings) as driver:
            await driver.say(800)
            await driver.be_silent(600)
            await driver.until(ResponseDone)
            await driver.be_silent(4200)
            timeout = await driver.until(IdleTimedOut)
            assert 2000 <= timeout.end_ms - timeout.start_ms < 2100
            assert timeout.start_ms > 2500  # once the answer has been heard
            index = driver.kinds.index("IdleTimedOut")
            assert driver.kinds[index:][1:5] == ["BufferCommitted", "ItemAdded", "ItemDone", "ResponseStarted"]

    run(talk())
