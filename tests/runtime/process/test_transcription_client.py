"""Transcription by an engine in its own process: what the engine here says, refusals by class, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from antiphon import Engine
from antiphon.errors import EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.runtime.calls.tasks import Listen, Transcribe
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.process.client import EngineClient
from support.engine.engine_client import until_free
from support.engine.forked_engine import ForkedClient
from support.models.tiny_whisper import dims, state_dict, vocabulary
from support.sound.heard_words import is_heard
from support.sound.speech import JFK_TEXT, jfk
from weights.whisper_files import ggml_file

RATE = 16_000
OPTIONS = TranscriptionOptions(temperatures=(0.0,), voice_activity=False, no_speech_limit=1.0)


def noise(seconds: float) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal(round(seconds * RATE)) * 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def ggml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whisper") / "ggml-tiny.bin"
    path.write_bytes(ggml_file(dims(), state_dict(), vocabulary(50257)))
    return path


@pytest.fixture(scope="module")
def world(ggml: Path) -> Iterator[tuple[asyncio.Runner, EngineClient]]:
    with asyncio.Runner() as runner:
        client = ForkedClient(dict(kv_bytes=64 << 20))

        async def start() -> None:
            await client.start()
            await client.load("tiny", str(ggml))

        runner.run(start())
        assert client.models["tiny"].task == "transcribe"
        yield runner, client
        runner.run(client.close())


def test_the_same_as_here(world: tuple[asyncio.Runner, EngineClient], ggml: Path) -> None:
    runner, client = world
    sound = noise(23)
    with Engine(str(ggml), kv_bytes=64 << 20) as engine:
        expected = engine.transcribe(sound, temperatures=(0.0,), voice_activity=False, no_speech_limit=1.0)

    async def main() -> list[object]:
        stream = client.transcribe(Transcribe("one", "tiny", OPTIONS, sound))
        return [told async for told in stream]

    *progress, transcript = runner.run(main())
    assert transcript == expected
    assert isinstance(transcript, Transcript)
    assert "".join(part.text for part in progress) == transcript.text  # type: ignore[attr-defined]


def test_a_recording_in_pieces_is_the_same(world: tuple[asyncio.Runner, EngineClient]) -> None:
    runner, client = world
    sound = noise(23)

    async def main() -> tuple[Transcript, Transcript]:
        whole = await client.transcribe(Transcribe("whole", "tiny", OPTIONS, sound)).wait()
        stream = client.transcribe(Transcribe("fed", "tiny", OPTIONS))
        for start in range(0, len(sound), 3 * RATE):
            assert await asyncio.wait_for(stream.room(), 60)
            stream.push(sound[start : start + 3 * RATE])
        stream.finish()
        return whole, await stream.wait()

    whole, fed = runner.run(main())
    assert fed == whole


def test_a_recording_that_is_fed_can_be_left(world: tuple[asyncio.Runner, EngineClient]) -> None:
    """With its sound unfinished: the thread that waits for more of it ends too."""
    runner, client = world

    async def main() -> None:
        for number in range(70):  # more than there are threads
            stream = client.transcribe(Transcribe(f"left-{number}", "tiny", OPTIONS))
            stream.push(noise(1))
            stream.close()
            assert not await stream.room()
        last = client.transcribe(Transcribe("last", "tiny", OPTIONS, noise(1)))
        await asyncio.wait_for(last.wait(), 60)

    runner.run(main())


def test_refusals_and_leaving_early(world: tuple[asyncio.Runner, EngineClient]) -> None:
    runner, client = world

    async def main() -> None:
        sound = noise(1)
        with pytest.raises(InvalidRequestError, match="only English"):
            await client.transcribe(Transcribe("a", "tiny", TranscriptionOptions(translate=True), sound)).wait()
        with pytest.raises(ModelNotFoundError):
            await client.transcribe(Transcribe("b", "other", OPTIONS, sound)).wait()
        async with client.transcribe(Transcribe("c", "tiny", OPTIONS, noise(120))) as stream:
            await anext(stream)
        await until_free(client, "tiny", "tiny encoder")
        with pytest.raises(EngineError, match="before its transcript"):
            await stream.wait()

    runner.run(main())


@pytest.mark.weights
@pytest.mark.slow
def test_a_live_session(world: tuple[asyncio.Runner, EngineClient]) -> None:
    import soundfile

    runner, client = world
    sound = soundfile.read(jfk(), dtype="float32")[0]

    async def main() -> list[object]:
        await client.load("whisper-tiny.en", "whisper-tiny.en")
        session = client.transcribe(Listen("live", "whisper-tiny.en", TranscriptionOptions(), interval=4.0))
        await session.accepted()
        for start in range(0, len(sound), RATE):
            session.push(sound[start : start + RATE])
        session.finish()
        return [told async for told in session]

    *updates, transcript = runner.run(main())
    assert isinstance(transcript, Transcript) and all(isinstance(update, LiveUpdate) for update in updates)
    assert is_heard(JFK_TEXT, transcript.text)
