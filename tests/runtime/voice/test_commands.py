"""Commands of a client: manual turns, items, responses beside the conversation, tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.voice.events import (
    ArgumentsDone,
    BufferCleared,
    BufferCommitted,
    ItemAdded,
    ItemDeleted,
    ItemRetrieved,
    ResponseDone,
    ResponseStarted,
    ResponseStatus,
    SessionError,
    SettingsChanged,
    SoundDelta,
    TranscriptDelta,
    TranscriptDone,
)
from antiphon.runtime.voice.items import FunctionCall, FunctionOutput, Item, Message, Role, SoundPart, TextPart
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.settings import Modality, ToolChoice, ToolDefinition, VoiceSettings
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_services import AnswerScript, FakeServices, says, texts

MANUAL = VoiceSettings(turns=TurnSettings(TurnDetection.MANUAL))
TEXT = replace(MANUAL, modality=Modality.TEXT)


def note(item_id: str, text: str = "hello") -> Message:
    return Message(item_id, Role.USER, (TextPart(text),))


def test_a_manual_turn() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            await driver.say(800)
            await driver.be_silent(1000)
            assert driver.events == []
            driver.session.commit()
            driver.session.add_item(note("item_after"))  # waits, as the next does, for the turn's item
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert driver.kinds[:6] == [
                "BufferCommitted", "ItemAdded", "ItemDone", "ItemAdded", "ItemDone", "ResponseStarted",
            ]  # fmt: skip
            assert texts(driver.services.answers[0].items) == ["t1w0 t1w1 t1w2 t1w3", "hello"]
            marks = done.response.waterfall.milliseconds()
            assert marks["requested"] == 0 and 0 < marks["first_token"] <= marks["first_sound"]
            driver.order.finish()

    run(talk())


def test_a_long_manual_turn_is_prefilled_and_shown_at_its_end() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            await driver.say(2200)
            assert [texts(items)[0].split()[-1] for items in driver.services.prefills] == ["t1w1", "t1w6"]
            assert driver.events == []
            driver.session.commit()
            done = await driver.until(TranscriptDone)
            assert "".join(delta.text for delta in driver.all(TranscriptDelta)) == done.text

    run(talk())


def test_an_empty_commit() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            driver.session.commit("mine")
            driver.session.add_item(note("item_1"))
            error = await driver.until(SessionError)
            assert (error.code, error.tag) == ("input_audio_buffer_commit_empty", "mine")
            await driver.until(ItemAdded)
            await driver.say(500)
            driver.session.clear()
            await driver.until(BufferCleared)
            driver.session.commit()
            await driver.until(SessionError, lambda event: event is not error)
            assert not driver.all(BufferCommitted)

    run(talk())


def test_a_commit_of_a_detected_turn_asks_for_no_answer() -> None:
    async def talk() -> None:
        async with Driver(FakeServices()) as driver:
            await driver.say(800)
            driver.session.commit()
            await driver.until(TranscriptDone)
            await driver.rest()
            assert driver.kinds[:5] == [
                "UserSpeechStarted",
                "UserSpeechStopped",
                "BufferCommitted",
                "ItemAdded",
                "ItemDone",
            ]
            assert not driver.all(ResponseStarted)

    run(talk())


def test_items_are_put_where_the_client_says() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            session = driver.session
            session.add_item(note("b"))
            session.add_item(note("d"))
            session.add_item(note("a"), "root")
            session.add_item(note("c"), "b")
            assert [item.id for item in session.items] == ["a", "b", "c", "d"]
            session.retrieve_item("c")
            session.delete_item("b")
            session.add_item(note("d"), tag="twice")
            session.add_item(note("e"), "nothing", tag="nowhere")
            session.delete_item("nothing", "delete")
            session.retrieve_item("nothing", "retrieve")
            session.truncate("nothing", 0, 0, "truncate")
            session.truncate("a", 0, 0, "soundless")
            await driver.rest()
            assert driver.all(ItemRetrieved) == [ItemRetrieved(note("c"))]
            assert driver.all(ItemDeleted) == [ItemDeleted("b")]
            tags = [error.tag for error in driver.all(SessionError)]
            assert tags == ["twice", "nowhere", "delete", "retrieve", "truncate", "soundless"]
            assert [item.id for item in session.items] == driver.order.items == ["a", "c", "d"]

    run(talk())


def test_a_call_comes_after_the_sound_before_it() -> None:
    def script(items: Sequence[Item], settings: VoiceSettings) -> AnswerScript:
        if any(isinstance(item, FunctionOutput) for item in items):
            return says("it rains")
        calls = [
            CallStart(0, "weather"),
            CallArguments(0, '{"city":'),
            CallArguments(0, ' "Oslo"}'),
            CallStart(0, "time"),
        ]
        return AnswerScript([Content("Let me see,"), Content(" please wait."), *calls])

    async def talk() -> None:
        async with Driver(FakeServices(script, speech_delay=0.7), MANUAL) as driver:
            driver.session.add_item(note("item_1", "How is the weather?"))
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert [type(item) for item in done.response.output] == [Message, FunctionCall, FunctionCall]
            weather, time = driver.all(ArgumentsDone)
            assert (weather.name, weather.arguments) == ("weather", '{"city": "Oslo"}')
            assert (time.name, time.arguments) == ("time", "{}")
            assert len(driver.all(SoundDelta)) == 2
            assert driver.kinds.index("SoundDone") < driver.kinds.index("ArgumentsDelta")
            driver.session.add_item(FunctionOutput("item_2", weather.call_id, "rain"))
            driver.session.respond()
            await driver.until(ResponseDone, lambda event: event is not done)
            assert texts(driver.session.items)[-1] == "it rains"
            driver.order.finish()

    run(talk())


def test_a_call_alone_is_not_spoken() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: AnswerScript([Content("\n"), CallStart(0, "look")]))
        async with Driver(services, MANUAL) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert [type(item) for item in done.response.output] == [FunctionCall]
            assert {type(call).__name__ for call in services.open_calls} == {"FakeHearing"}

    run(talk())


@pytest.mark.parametrize("choice", [ToolChoice.AUTO, ToolChoice.NONE])
def test_a_call_that_is_left_in_the_text_is_not_spoken(choice: ToolChoice) -> None:
    written = 'Let me see. {"name": "get_weather", "arguments": {"city": "Oslo"}} It rains, I think.'

    async def talk(settings: VoiceSettings) -> str:
        settings = replace(settings, tools=(ToolDefinition("get_weather"),), tool_choice=choice)
        async with Driver(FakeServices(lambda items, settings: says(written)), settings) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            driver.order.finish()
            return texts(done.response.output)[0]

    spoken: list[str] = []

    async def both() -> None:
        spoken.append(await talk(MANUAL))
        spoken.append(await talk(TEXT))

    run(both())
    assert spoken == ["Let me see. It rains, I think.", written]


def test_responses_beside_the_conversation() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says(" ".join(texts(items)) or "nothing"))
        async with Driver(services, TEXT) as driver:
            session = driver.session
            session.add_item(note("item_1", "of the conversation"))
            for number in range(3):
                items = (note(f"own_{number}", f"of its own {number}"),)
                session.respond(ResponseRequest(items=items, in_conversation=False, metadata={"n": str(number)}))
            session.respond(ResponseRequest(in_conversation=False))
            session.respond()
            session.respond(tag="too many")
            await driver.rest()
            answers = {
                (done.response.metadata or {}).get("n"): texts(done.response.output)
                for done in driver.all(ResponseDone)
            }
            assert [answers[str(number)] for number in range(3)] == [[f"of its own {number}"] for number in range(3)]
            assert answers[None] == ["of the conversation"]
            assert [error.tag for error in driver.all(SessionError)] == ["too many"]
            assert texts(session.items) == ["of the conversation", "of the conversation"]
            driver.order.finish()

    run(talk())


def test_the_settings_of_one_response() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            driver.session.respond(ResponseRequest(TEXT))
            await driver.until(ResponseDone)
            assert "WrittenTextDone" in driver.kinds and "SoundDelta" not in driver.kinds
            assert driver.session.settings is MANUAL

    run(talk())


def test_sound_in_a_message_is_transcribed_before_it_is_answered() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            sound = SoundPart(samples=np.zeros(32_000, np.float32))
            driver.session.add_item(Message("item_1", Role.USER, (TextPart("Listen:"), sound)))
            driver.session.respond()
            await driver.until(ResponseDone)
            (done,) = driver.all(TranscriptDone)
            assert (done.item_id, done.content_index, done.seconds) == ("item_1", 1, 2.0)
            assert texts(driver.services.answers[0].items) == ["Listen:\nsaid in a message"]
            aside = ResponseRequest(items=(Message("item_2", Role.USER, (sound,)),), in_conversation=False)
            driver.session.respond(aside)
            await driver.rest()
            assert texts(driver.services.answers[1].items) == ["said in a message"]

    run(talk())


@pytest.mark.parametrize("model", ["another", None])
def test_settings_change_while_the_person_speaks(model: str | None) -> None:
    """With another recogniser hearing begins again; with the same it goes on."""

    async def talk() -> None:
        async with Driver(FakeServices()) as driver:
            await driver.say(800)
            settings = VoiceSettings(turns=TurnSettings(silence_ms=200), transcription_model=model)
            driver.session.configure(settings)
            await driver.until(SettingsChanged)
            await driver.be_silent(300)
            await driver.say(600)
            await driver.be_silent(300)
            await driver.rest()
            assert driver.all(ResponseDone)[-1].response.status is ResponseStatus.COMPLETED
            assert len(driver.services.hearings) == (1 if model is None else 2)
            driver.order.finish()

    run(talk())


def test_another_recogniser_right_after_a_commit() -> None:
    """The new settings wait for the turn, and hearing begins again without an error."""

    async def talk() -> None:
        async with Driver(FakeServices(), MANUAL) as driver:
            await driver.say(800)
            driver.session.commit()
            driver.session.configure(replace(MANUAL, transcription_model="another"))
            await driver.rest()
            assert driver.kinds == ["BufferCommitted", "ItemAdded", "ItemDone", "SettingsChanged", "TranscriptFailed"]
            assert len(driver.services.hearings) == 2 and driver.services.hearings[0].is_closed

    run(talk())


def test_an_answer_at_its_limit_of_tokens() -> None:
    async def talk() -> None:
        services = FakeServices(lambda items, settings: says("cut off", is_cut=True))
        async with Driver(services, MANUAL) as driver:
            driver.session.respond()
            done = await driver.until(ResponseDone)
            assert (done.response.status, done.response.reason) == (ResponseStatus.INCOMPLETE, "max_output_tokens")
            assert done.response.usage.output_tokens == 2

    run(talk())


def test_a_transcription_session_refuses_responses() -> None:
    async def talk() -> None:
        async with Driver(FakeServices(), VoiceSettings(answer=False)) as driver:
            driver.session.respond(tag="mine")
            assert (await driver.until(SessionError)).tag == "mine"

    run(talk())
