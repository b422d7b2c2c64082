"""`Talker`: a client of `/v1/realtime` that speaks recordings in real time and listens to the answers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from antiphon.audio.pcm import to_floats, to_s16
from antiphon.audio.resample import resample
from antiphon.audio.samples import SPEECH_RATE, Floats
from conversation import protocol
from conversation.player import Player
from conversation.protocol import PIECE_SECONDS, WIRE_RATE
from support.sound.recorded_turns import Clip, room_tone

PIECE = round(PIECE_SECONDS * WIRE_RATE)


@dataclass
class Answer:
    """Response in progress or ended."""

    id: str
    player: Player = field(default_factory=Player)
    text: str = ""
    status: str = "in_progress"
    waterfall: dict[str, int] = field(default_factory=dict)


class Talker:
    """Client of a session. `answers` lists its responses. Times are those of `time.monotonic`."""

    def __init__(self, socket: ClientConnection, room: Clip) -> None:
        self._socket = socket
        self._tone = to_s16(resample(room_tone(10 * SPEECH_RATE, room, seed=1), SPEECH_RATE, WIRE_RATE))
        self._said: list[tuple[int, Floats]] = []  # each with its start, in samples of the microphone's sound
        self._position = 0
        self._began = time.monotonic()
        self._changed = asyncio.Event()
        self.answers: list[Answer] = []
        self.transcripts: list[str] = []
        #: Arrival times of `input_audio_buffer.speech_started`.
        self.speech_started: list[float] = []
        self.errors: list[str] = []
        #: Maximum seconds by which a chunk of sound was sent too late.
        self.late = 0.0

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str, transcription_model: str, room: Clip) -> AsyncIterator[Talker]:
        address = url.replace("http", "ws") + f"/v1/realtime?model={protocol.CHAT_MODEL}"
        async with connect(address, max_size=None, compression=None) as socket:
            settings = protocol.session(transcription_model)
            await socket.send(json.dumps({"type": "session.update", "session": settings}))
            while (event := json.loads(await socket.recv()))["type"] != "session.updated":
                assert event["type"] != "error", event
            talker = cls(socket, room)
            tasks = [asyncio.create_task(work) for work in (talker._speak(), talker._listen())]
            try:
                yield talker
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    # -- speaking -----------------------------------------------------------------------------------------------

    def say(self, clip: Clip, after: float = 0.0) -> float:
        """Speak a clip from the next chunk on, `after` seconds later; return the time of its first sample."""
        start = self._position + round(after * WIRE_RATE)
        self._said.append((start, resample(clip.sound, SPEECH_RATE, WIRE_RATE)))
        return self._began + start / WIRE_RATE

    async def _speak(self) -> None:
        while True:
            end = self._position + PIECE
            await asyncio.sleep(self._began + end / WIRE_RATE - time.monotonic())
            self.late = max(self.late, time.monotonic() - self._began - end / WIRE_RATE)
            data = self._piece(self._position).tobytes()
            self._position = end
            audio = base64.b64encode(data).decode()
            await self._socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))

    def _piece(self, start: int) -> np.ndarray:
        """Return a chunk of the room's silence, with the clips spoken over it."""
        piece = self._tone[(start + np.arange(PIECE)) % len(self._tone)]
        for begin, sound in self._said:
            first, last = max(start, begin), min(start + PIECE, begin + len(sound))
            if first < last:
                piece[first - start : last - start] = to_s16(sound[first - begin : last - begin])
        return piece

    # -- listening ----------------------------------------------------------------------------------------------

    async def until(self, condition: Any, seconds: float = protocol.TURN_TIMEOUT) -> bool:
        """Wait until a condition, checked after every event, holds; return False on a timeout."""
        deadline = time.monotonic() + seconds
        while not condition():
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return False
        return True

    async def _listen(self) -> None:
        async for message in self._socket:
            now = time.monotonic()
            self._take(json.loads(message), now)
            self._changed.set()

    def _take(self, event: dict[str, Any], now: float) -> None:
        match event["type"]:
            case "input_audio_buffer.speech_started":
                self.speech_started.append(now)
            case "conversation.item.input_audio_transcription.completed":
                self.transcripts.append(event["transcript"])
            case "response.created":
                self.answers.append(Answer(event["response"]["id"]))
            case "response.output_audio.delta":
                self.answers[-1].player.add(to_floats(base64.b64decode(event["delta"]), "s16le"), now)
            case "response.output_audio_transcript.delta":
                self.answers[-1].text += event["delta"]
            case "response.done":
                response = event["response"]
                answer = next(answer for answer in self.answers if answer.id == response["id"])
                answer.status = response["status"]
                answer.waterfall = json.loads((response["metadata"] or {}).get("antiphon.waterfall", "{}"))
            case "error":
                self.errors.append(event["error"]["message"])
