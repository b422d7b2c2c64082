"""Sessions of `/v1/realtime` over real WebSockets, with voices that are not real. Every event's type is checked."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.audio.pcm import to_alaw, to_mulaw
from antiphon.runtime.calls.turn_settings import TurnDetection
from antiphon.runtime.voice.dialogue import event_queue
from antiphon.runtime.voice.items import FunctionOutput, Message
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import SessionLimits
from antiphon.server.web.http.errors import unavailable
from support.realtime_order import TRANSCRIPTION
from support.server.fake_voice import FakeVoice, call, text
from support.server.realtime_server import FakeRealtime, fake_realtime
from support.waiting import wait_until, wait_until_async

pytestmark = pytest.mark.asyncio
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
TURN = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeRealtime]:
    with fake_realtime() as made:
        yield made


@pytest.fixture
def realtime(server: FakeRealtime) -> Iterator[FakeRealtime]:
    server.prepare = lambda voice: None
    yield server
    requests = server.serving.requests
    wait_until(lambda: not len(requests), "all sessions to end", seen=lambda: list(requests))
    assert all(voice.is_closed for voice in server.voices)


def without_repeats(kinds: list[str]) -> list[str]:
    """Each kind of delta once."""
    return [kind for index, kind in enumerate(kinds) if not (kind.endswith(".delta") and kind in kinds[:index])]


async def test_a_spoken_turn(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        await session.turn()
        done = await session.until("response.done")
        assert (await session.read())["rate_limits"] == []  # nothing is limited
        assert without_repeats(session.order.kinds[1:]) == TURN
        response = done["response"]
        assert response["status"] == "completed" and response["usage"]["total_tokens"] == 18
        assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": "Hello there."}]
        assert "first_sound" in json.loads(response["metadata"]["antiphon.waterfall"])
        started = next(event for event in session.order.events if event["type"] == TURN[0])
        assert started["audio_start_ms"] == 0
        session.order.finish()
    items, _ = realtime.voice.asked[0]
    assert isinstance(items[0], Message) and items[0].text == "turn 1"


async def test_an_update_is_merged_and_echoed(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        wanted: dict[str, Any] = {
            "type": "realtime",
            "model": "gpt-realtime",
            "tracing": "auto",
            "audio": {
                "input": {
                    "transcription": {"model": "gpt-4o-mini-transcribe"},
                    "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
                },
                "output": {"voice": "ash"},
            },
        }
        await session.send("session.update", session=wanted)
        first = (await session.until("session.updated"))["session"]
        await session.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        second = (await session.until("session.updated"))["session"]
        assert second == {**first, "instructions": "Be brief."}
        assert second["audio"]["input"]["turn_detection"]["interrupt_response"] is True
        assert second["audio"]["output"]["voice"] == "ash"
        await session.turn()
        completed = await session.until(TRANSCRIPTION + "completed")
        assert completed["transcript"] == "turn 1" and completed["usage"]["type"] == "duration"
        if "response.done" not in session.order.kinds:
            await session.until("response.done")


async def test_a_tool_is_called_and_answered(realtime: FakeRealtime) -> None:
    realtime.prepare = lambda voice: voice.answers.append(call("get_weather", '{"city": ', '"Oslo"}'))
    async with realtime.session() as session:
        await session.send("session.update", session={"type": "realtime", "tools": [TOOL]})
        await session.turn()
        arguments = await session.until("response.function_call_arguments.done")
        assert arguments["name"] == "get_weather" and json.loads(arguments["arguments"]) == {"city": "Oslo"}
        await session.until("response.done")
        output = {"type": "function_call_output", "call_id": arguments["call_id"], "output": "rain"}
        await session.send("conversation.item.create", item=output)
        await session.send("response.create")
        done = await session.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == "Hello there."
        session.order.finish()
    items, settings = realtime.voice.asked[-1]
    assert any(isinstance(item, FunctionOutput) and item.output == "rain" for item in items)
    assert settings.tools[0].name == "get_weather"


async def test_text_metadata_and_a_response_outside_of_the_conversation(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
        await session.send("conversation.item.create", item=message)
        item_id = (await session.until("conversation.item.done"))["item"]["id"]
        wanted = {
            "conversation": "none",
            "output_modalities": ["text"],
            "metadata": {"client_event_id": "evt_1"},
            "input": [{"type": "item_reference", "id": item_id}, message],
        }
        await session.send("response.create", response=wanted)
        created = (await session.until("response.created"))["response"]
        assert created["metadata"] == {"client_event_id": "evt_1"} and created["conversation_id"] is None
        done = (await session.until("response.done"))["response"]
        assert done["output"][0]["content"] == [{"type": "output_text", "text": "Hello there."}]
        assert done["metadata"]["client_event_id"] == "evt_1"
        assert session.order.items == [item_id]
        await session.send("conversation.item.retrieve", item_id=item_id)
        assert (await session.until("conversation.item.retrieved"))["item"]["content"][0]["text"] == "Hi"
        await session.send("conversation.item.delete", item_id=item_id)
        await session.until("conversation.item.deleted")
        session.order.finish()
    assert len(realtime.voice.asked[0][0]) == 2


async def test_speech_interrupts_a_response(realtime: FakeRealtime) -> None:
    def hold(voice: FakeVoice) -> None:
        voice.go.clear()

    realtime.prepare = hold
    async with realtime.session() as session:
        await session.turn()
        await session.until("response.created")
        await session.say(600)
        cancelled = (await session.until("response.done"))["response"]
        assert cancelled["status"] == "cancelled"
        assert cancelled["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert realtime.voices[-1].opened[0].is_closed
        realtime.call(realtime.voice.go.set)
        await session.say(400, 0.0)
        assert (await session.until("response.done"))["response"]["status"] == "completed"
        session.order.finish()


async def test_truncating_keeps_what_was_heard_and_beyond_the_end_is_an_error(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        await session.turn()
        item = (await session.until("response.done"))["response"]["output"][0]
        await session.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=90_000)
        error = (await session.until("error"))["error"]
        assert error["param"] == "audio_end_ms"
        await session.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=100)
        assert (await session.until("conversation.item.truncated"))["audio_end_ms"] == 100
        await session.send("conversation.item.retrieve", item_id=item["id"])
        kept = (await session.until("conversation.item.retrieved"))["item"]
        assert kept["content"][0]["transcript"].strip() == "Hello"
        await session.turn()  # the session goes on
        assert (await session.until("response.done"))["response"]["status"] == "completed"


async def test_turns_that_the_client_ends(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        manual = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
        await session.send("session.update", session=manual)
        await session.send("input_audio_buffer.commit", event_id="mine")
        error = (await session.until("error"))["error"]
        assert error["code"] == "input_audio_buffer_commit_empty" and error["event_id"] == "mine"
        await session.say(500)
        await session.send("input_audio_buffer.clear")
        await session.until("input_audio_buffer.cleared")
        await session.say(500)
        await session.send("input_audio_buffer.commit")
        await session.send("response.create")
        await session.until("input_audio_buffer.committed")
        await session.until("response.done")
        assert "input_audio_buffer.speech_started" not in session.order.kinds
        await session.send("response.cancel", event_id="late")
        assert (await session.until("error"))["error"]["event_id"] == "late"
        session.order.finish()


@pytest.mark.parametrize("query", ["?intent=transcription", "?model=gpt-realtime"])
async def test_a_transcription_session_has_no_responses(realtime: FakeRealtime, query: str) -> None:
    async with realtime.session(query) as session:
        if "intent" not in query:
            await session.send("session.update", session={"type": "transcription"})
        await session.turn()
        await session.until(TRANSCRIPTION + "completed")
        assert not any(kind.startswith("response.") for kind in session.order.kinds)
        await session.send("response.create")
        await session.until("error")


@pytest.mark.parametrize(("kind", "encode"), [("audio/pcmu", to_mulaw), ("audio/pcma", to_alaw)])
async def test_g711_in_and_out(realtime: FakeRealtime, kind: str, encode: Any) -> None:
    async with realtime.session() as session:
        format = {"format": {"type": kind}}
        await session.send("session.update", session={"type": "realtime", "audio": {"input": format, "output": format}})
        tone = (0.5 * np.sin(np.arange(2400) / 3)).astype(np.float32)
        for samples in (tone, np.zeros(3200, np.float32)):
            await session.send("input_audio_buffer.append", audio=base64.b64encode(encode(samples)).decode())
        done = await session.until("response.done")
        assert done["response"]["audio"]["output"]["format"] == {"type": kind}
        deltas = [event["delta"] for event in session.order.events if event["type"] == "response.output_audio.delta"]
        assert sum(len(base64.b64decode(delta)) for delta in deltas) == 1600  # 200 ms at 8 kHz


@pytest.mark.parametrize(
    ("sent", "code", "param"),
    [
        ("{", "invalid_json", None),
        ("[]", "invalid_json", None),
        ("[" * 200_000, "event_too_complex", None),
        ('{"event_id": "e"}', "missing_required_parameter", "type"),
        ('{"type": "dance", "event_id": "e"}', "invalid_value", "type"),
        ('{"type": "input_audio_buffer.append", "audio": "###", "event_id": "e"}', "invalid_audio", "audio"),
        ('{"type": "input_audio_buffer.append", "event_id": "e"}', "missing_required_parameter", "audio"),
        ('{"type": "conversation.item.delete", "event_id": "e"}', "missing_required_parameter", "item_id"),
        (
            '{"type": "session.update", "session": {"model": "nope"}, "event_id": "e"}',
            "model_not_found",
            "session.model",
        ),
        (
            '{"type": "session.update", "session": {"surprise": 1}, "event_id": "e"}',
            "unknown_parameter",
            "session.surprise",
        ),
        (
            '{"type": "response.create", "response": {"input_audio_format": "pcm16"}, "event_id": "e"}',
            "unknown_parameter",
            "response.input_audio_format",
        ),
        (
            '{"type": "conversation.item.create", "event_id": "e", '
            '"item": {"type": "function_call_output", "call_id": "call_1", "output": "rain"}}',
            "invalid_tool_call_id",
            "item.call_id",
        ),
        (
            '{"type": "response.create", "event_id": "e", '
            '"response": {"input": [{"type": "function_call_output", "call_id": "call_1", "output": "rain"}]}}',
            "invalid_tool_call_id",
            "response.input.0.call_id",
        ),
        ('{"type": "output_audio_buffer.clear", "event_id": "e"}', "unsupported_event", "type"),
        ('{"type": "response.cancel", "event_id": "e"}', "response_cancel_not_active", "response_id"),
    ],
)
async def test_a_wrong_event_is_an_error_and_the_session_goes_on(
    realtime: FakeRealtime, sent: str, code: str, param: str | None
) -> None:
    async with realtime.session() as session:
        await session.socket.send(sent)
        error = (await session.until("error"))["error"]
        assert (error["code"], error["param"]) == (code, param)
        assert error["event_id"] == ("e" if '"e"' in sent else None) and error["type"] == "invalid_request_error"
        await session.turn()
        await session.until("response.done")


async def test_semantic_turn_detection_needs_its_model(realtime: FakeRealtime) -> None:
    missing = unavailable("model 'smart-turn' failed to load: run `antiphon pull smart-turn`", "model_load_failed")
    semantic = {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}
    async with realtime.session() as session:
        realtime.voice.no_detectors = missing
        await session.send("session.update", session={**semantic, "instructions": "Be brief."}, event_id="mine")
        error = (await session.until("error"))["error"]
        assert "antiphon pull smart-turn" in error["message"] and error["code"] == "model_load_failed"
        assert error["param"] == "session.audio.input.turn_detection" and error["event_id"] == "mine"
        realtime.voice.no_detectors = None
        await session.send("session.update", session={"type": "realtime"})
        held = (await session.until("session.updated"))["session"]  # a rejected update changes nothing
        assert held["audio"]["input"]["turn_detection"]["type"] == "server_vad" and not held["instructions"]
        await session.send("session.update", session=semantic)
        held = (await session.until("session.updated"))["session"]
        assert held["audio"]["input"]["turn_detection"]["type"] == "semantic_vad"
        await session.send("session.update", session=semantic)
        await session.until("session.updated")
    assert realtime.voice.detections == [TurnDetection.SEMANTIC_VAD]


async def test_an_unknown_voice_is_rejected_at_once(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        wanted = {"type": "realtime", "instructions": "Be brief.", "audio": {"output": {"voice": "nobody"}}}
        await session.send("session.update", session=wanted, event_id="mine")
        error = (await session.until("error"))["error"]
        assert "'nobody'" in error["message"] and "alloy, ash" in error["message"]
        assert (error["param"], error["event_id"]) == ("session.audio.output.voice", "mine")
        await session.send("response.create", response={"audio": {"output": {"voice": {"id": "nobody"}}}})
        assert (await session.until("error"))["error"]["param"] == "response.audio.output.voice"
        await session.send("session.update", session={"type": "realtime", "audio": {"output": {"voice": "ash"}}})
        held = (await session.until("session.updated"))["session"]
        assert held["audio"]["output"]["voice"] == "ash" and not held["instructions"]
        assert "response.created" not in session.order.kinds


@pytest.mark.long("the largest append that is accepted has 15 MB")
async def test_a_large_append_and_one_that_is_too_large(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        manual = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
        await session.send("session.update", session=manual)
        await session.until("session.updated")
        largest = base64.b64encode(bytes(15 << 20)).decode()
        await session.send("input_audio_buffer.append", audio=largest)
        await session.send("input_audio_buffer.commit")
        await session.until("input_audio_buffer.committed")
        await session.send("input_audio_buffer.append", audio=base64.b64encode(bytes((15 << 20) + 3)).decode())
        assert "15,728,640" in (await session.until("error"))["error"]["message"]
        await session.send("input_audio_buffer.append", audio=largest)  # more than ten minutes ahead of real time
        assert (await session.until("error"))["error"]["code"] == "input_audio_buffer_full"


async def test_a_killed_engine_is_an_error_and_the_session_goes_on(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        await session.turn()
        await session.until("response.done")
        realtime.call(realtime.voice.hearings[0].die)
        error = (await session.until("error"))["error"]
        assert error["type"] == "server_error"
        hearings = realtime.voice.hearings
        await wait_until_async(lambda: len(hearings) == 2, "a second hearing", seen=lambda: hearings)
        await session.turn()
        assert (await session.until("response.done"))["response"]["status"] == "completed"
        session.order.finish()


async def test_draining_tells_the_session_and_closes_it_after_its_response(realtime: FakeRealtime) -> None:
    realtime.prepare = lambda voice: voice.go.clear()
    async with realtime.session() as session:
        await session.turn()
        await session.until("response.created")
        [context] = list(realtime.serving.requests)
        realtime.call(context.announce_draining)
        assert (await session.until("error"))["error"]["code"] == "shutting_down"
        realtime.call(realtime.voice.go.set)
        await session.until("response.done")
        await session.until("rate_limits.updated")
        with pytest.raises(ConnectionClosed) as closed:
            await session.read()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012


async def test_the_limit_of_a_key_is_told_after_a_response() -> None:
    with fake_realtime(keys=KeyRing(["secret-key"]), per_key=3) as realtime:
        options = {"additional_headers": {"authorization": "Bearer secret-key"}}
        async with realtime.session(**options), realtime.session(**options) as session:
            await session.turn()
            await session.until("response.done")
            limits = (await session.until("rate_limits.updated"))["rate_limits"]
            assert limits == [{"name": "requests", "limit": 3, "remaining": 1, "reset_seconds": 0.0}]


async def test_a_silent_session_ends() -> None:
    with fake_realtime(SessionLimits(idle_seconds=0.2)) as realtime:
        async with realtime.session() as session:
            assert (await session.until("error"))["error"]["code"] == "session_idle"
            with pytest.raises(ConnectionClosed):
                await session.read()


async def test_a_client_that_does_not_read_is_closed(realtime: FakeRealtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "MAX_UNREAD_BYTES", 1 << 20)
    realtime.prepare = lambda voice: voice.answers.append(text(*["word "] * 3000))  # five minutes of sound
    async with realtime.session(max_queue=1) as session:
        await session.send("response.create")
        wait_until(lambda: not len(realtime.serving.requests), "the session to be closed")
        assert realtime.voice.is_closed and realtime.voice.opened[0].is_closed  # before the client notices
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await session.read()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "client_too_slow")
    assert session.order.kinds.count("response.output_audio.delta") < 2000


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("?model=nope", 404, "model_not_found"),
        ("?model=all-minilm-l6-v2", 400, "unsupported_model"),
        ("?intent=dance", 400, "invalid_value"),
        ("?call_id=rtc_1", 400, "unsupported_value"),
    ],
)
async def test_a_wrong_address_is_refused(realtime: FakeRealtime, query: str, status: int, code: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with realtime.session(query):
            pass
    response = refused.value.response
    assert response.status_code == status and json.loads(response.body or b"{}")["error"]["code"] == code


async def test_openais_client(realtime: FakeRealtime) -> None:
    realtime.prepare = lambda voice: voice.answers.append(text("It ", "rains."))
    client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{realtime.port}/v1", api_key="unused")
    async with client.realtime.connect(model="gpt-realtime") as connection:
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        content = [{"type": "input_text", "text": "How is the weather?"}]
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})  # type: ignore[typeddict-item]
        await connection.response.create()
        said = ""
        async for event in connection:
            if event.type == "response.output_text.delta":
                said += event.delta
            elif event.type == "response.done":
                assert event.response.status == "completed"
                break
    assert said == "It rains."
