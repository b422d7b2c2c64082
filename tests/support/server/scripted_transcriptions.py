"""Transcriptions with segments from a test: the server decodes the recordings, but no engine transcribes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.tasks import Transcribe
from antiphon.runtime.calls.transcript import Segment, Transcript, TranscriptionStats, TranscriptProgress
from antiphon.server.web.middleware import admission
from support.server.http_server import RunningServer
from support.sound.sounds import silence, wav_bytes
from support.waiting import wait_until

PATH = "/v1/audio/transcriptions"


class ScriptedTranscription:
    """Transcription of the engine client whose events a test pushes. The test's methods are safe from any thread."""

    def __init__(self, call: Transcribe, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.id = call.id
        self.is_closed = False
        self.num_samples = 0
        self.has_all_sound = False
        self.segments: list[Segment] = []
        self._loop = loop
        self._events: asyncio.Queue[TranscriptProgress | Transcript | AntiphonError | None] = asyncio.Queue()

    # -- for the test -------------------------------------------------------------------------------------------

    def say(self, text: str, end: float) -> None:
        """Finalise a segment that ends at `end` seconds."""
        segment = Segment(self.segments[-1].end if self.segments else 0.0, end, f" {text}")
        self.segments.append(segment)
        self._put(TranscriptProgress((segment,), f" {text}" if len(self.segments) > 1 else text, end, None))

    def complete(self) -> None:
        """Wait until all of the sound has arrived, then send the transcript."""
        wait_until(lambda: self.has_all_sound, "all of the sound")
        seconds = self.num_samples / SPEECH_RATE
        stats = TranscriptionStats(seconds, seconds, 1.0, 0.5, 1, 0, 10)
        self._put(Transcript("en", 1.0, seconds, tuple(self.segments), "transcribe", stats))

    def fail(self) -> None:
        self._put(EngineError("the engine died"))

    def wait_until_read(self) -> None:
        wait_until(self._events.empty, "the events to be read")

    def _put(self, event: Any) -> None:
        asyncio.run_coroutine_threadsafe(self._events.put(event), self._loop).result(60)

    # -- for the server -----------------------------------------------------------------------------------------

    async def room(self) -> bool:
        return not self.is_closed

    def push(self, samples: Floats) -> None:
        self.num_samples += len(samples)

    def finish(self) -> None:
        self.has_all_sound = True

    def close(self) -> None:
        self.is_closed = True
        self._events.put_nowait(None)

    def __aiter__(self) -> ScriptedTranscription:
        return self

    async def __anext__(self) -> TranscriptProgress | Transcript:
        event = await self._events.get()
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, AntiphonError):
            raise event
        return event


class ScriptedLimit:
    """Time limit that expires when a test says so."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self.seconds = seconds
        self.end = end
        self.num_restarts = 0

    def restart(self) -> None:
        self.num_restarts += 1

    def cancel(self) -> None:
        pass


@dataclass
class ScriptedServer:
    running: RunningServer
    key: str
    transcriptions: list[ScriptedTranscription] = field(default_factory=list)
    limits: list[ScriptedLimit] = field(default_factory=list)

    def request(self, method: str, path: str, key: str | None = None, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key or self.key}"}
        return httpx.request(method, self.running.url + path, headers=headers, timeout=120, **more)

    def send(self, seconds: float = 2.0, path: str = PATH, key: str | None = None, **fields: Any) -> httpx.Response:
        """Upload silence of this length with these form fields."""
        files = {"file": ("a.wav", wav_bytes(silence(seconds)))}
        return self.request("POST", path, key, data={"model": "whisper-1", **fields}, files=files)

    def transcription(self, count: int = 1) -> ScriptedTranscription:
        """Wait until `count` transcriptions have begun, and return the last of them."""
        found = self.transcriptions
        wait_until(lambda: len(found) >= count, f"{count} transcriptions", seen=lambda: found)
        return found[count - 1]

    def expire(self, limit: ScriptedLimit) -> None:
        self.running.loop.call_soon_threadsafe(limit.end)


@contextmanager
def scripted_transcriptions(running: RunningServer, key: str) -> Iterator[ScriptedServer]:
    """Give a test control over a server's transcriptions and over its requests' time limits."""
    scripted = ScriptedServer(running, key)

    def transcribe(call: Transcribe) -> ScriptedTranscription:
        scripted.transcriptions.append(ScriptedTranscription(call, running.loop))
        return scripted.transcriptions[-1]

    def limit(seconds: float, end: Callable[[], None]) -> ScriptedLimit:
        scripted.limits.append(ScriptedLimit(seconds, end))
        return scripted.limits[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running.serving.client, "transcribe", transcribe)
        patch.setattr(admission, "TimeLimit", limit)
        yield scripted
