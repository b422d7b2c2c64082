"""SIGTERM while somebody speaks over Wyoming and an answer is written to a realtime session."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient

from antiphon.audio.decode import decode
from antiphon.audio.pcm import to_s16
from support.server.realtime_server import Session
from support.server.serve_command import ServeCommand
from support.server.wyoming_server import client_of, events_until
from support.sound.speech import JFK_TEXT, jfk, word_error_rate
from support.waiting import wait_until

pytestmark = [pytest.mark.weights, pytest.mark.slow]
FORM = {"rate": 16_000, "width": 2, "channels": 1}
RESTART = 1012


@contextmanager
def serve(chat: Path, *options: str) -> Iterator[ServeCommand]:
    models = (str(chat), "whisper-tiny.en")
    command = ServeCommand(*models, "--port", "0", "--wyoming", "0", "--kv-memory", "64", "--offline", *options)
    try:
        command.wait_until_ready()
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
        command.process.wait()


@dataclass
class Talk:
    """A client in the middle of its sentence, and a client in the middle of an answer."""

    command: ServeCommand
    wyoming: AsyncTcpClient
    session: Session
    rest: bytes

    async def terminate(self) -> None:
        """Tell the server to end. Returns when it admits nothing new."""
        self.command.process.send_signal(signal.SIGTERM)
        async with httpx.AsyncClient() as client:
            while (status := (await client.get(self.command.url() + "/readyz")).json()["status"]) != "draining":
                assert status == "ready"

    async def finish_sentence(self) -> str:
        await self.wyoming.write_event(AudioChunk(**FORM, audio=self.rest).event())
        await self.wyoming.write_event(AudioStop().event())
        events = await events_until(self.wyoming, "transcript-stop")
        (transcript,) = (Transcript.from_event(event) for event in events if event.type == "transcript")
        return transcript.text

    async def close_code(self) -> int:
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await self.session.read()
        assert closed.value.rcvd is not None and closed.value.rcvd.reason == "shutting_down"
        return closed.value.rcvd.code


@asynccontextmanager
async def talking(command: ServeCommand, max_tokens: int) -> AsyncIterator[Talk]:
    found: list[str] = []

    def is_listening() -> bool:
        found[:] = re.findall(r"Wyoming is listening on tcp://[\d.]+:(\d+)", command.text())
        return bool(found)

    wait_until(is_listening, "the server to listen for Wyoming", seen=command.text)
    clip = to_s16(decode(jfk()).values).tobytes()
    half = len(clip) // 4 * 2
    url = command.url().replace("http", "ws") + "/v1/realtime"
    async with client_of(int(found[0])) as wyoming, connect(url, max_size=None, open_timeout=60) as socket:
        await wyoming.write_event(Transcribe(language="en").event())
        await wyoming.write_event(AudioStart(**FORM).event())
        await wyoming.write_event(AudioChunk(**FORM, audio=clip[:half]).event())
        await events_until(wyoming, "voice-started")
        session = Session(socket)
        wanted = {"type": "realtime", "output_modalities": ["text"], "max_output_tokens": max_tokens}
        await session.send("session.update", session=wanted)
        content = [{"type": "input_text", "text": "Count as far as you can."}]
        await session.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await session.send("response.create")
        await session.until("response.output_text.delta")
        yield Talk(command, wyoming, session, clip[half:])


@pytest.fixture(scope="module")
def models(chat_folder: Path, model_path: Callable[[str], Path]) -> Path:
    for name in ("whisper-tiny.en", "silero-vad"):
        model_path(name)  # it is here from now on
    return chat_folder


def ended_well(command: ServeCommand) -> None:
    assert command.wait_for_end() == 0
    assert "Traceback" not in command.text(), command.text()


def test_what_runs_is_finished(models: Path) -> None:
    async def run(command: ServeCommand) -> None:
        async with talking(command, max_tokens=3000) as talk:
            await talk.terminate()
            assert (await talk.session.until("error"))["error"]["code"] == "shutting_down"
            response = (await talk.session.until("response.done"))["response"]
            assert response["status"] in ("completed", "incomplete")
            assert await talk.close_code() == RESTART
            talk.session.order.finish()
            assert word_error_rate(JFK_TEXT, await talk.finish_sentence()) <= 0.15
            assert await talk.wyoming.read_event() is None

    with serve(models, "--grace", "120") as command:
        asyncio.run(run(command))
        ended_well(command)


def test_what_does_not_end_in_time_is_told_so(models: Path) -> None:
    """Nobody ends the sentence. Both clients read why, and the exit code is 0 all the same."""

    async def run(command: ServeCommand) -> None:
        async with talking(command, max_tokens=3000) as talk:
            command.process.send_signal(signal.SIGTERM)
            (*_, error) = await events_until(talk.wyoming, "error")
            assert error.data["code"] == "shutting_down" and "shutting down" in error.data["text"]
            assert await talk.wyoming.read_event() is None
            assert await talk.close_code() == RESTART
            assert {event["error"]["code"] for event in talk.session.order.events if event["type"] == "error"} == {
                "shutting_down"
            }

    with serve(models, "--grace", "0.3") as command:
        asyncio.run(run(command))
        ended_well(command)
