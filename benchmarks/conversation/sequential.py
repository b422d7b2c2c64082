"""`SequentialPipeline`: the same turn without any overlap, as a baseline.

The same detectors with the same rules decide the end of the turn; then the same server's routes transcribe the whole
turn, generate the whole answer and speak all of it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import httpx
import numpy as np

from antiphon.audio.pcm import to_floats
from antiphon.audio.room import RoomLevel
from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.models.base.companions import END_OF_TURN, VOICE_ACTIVITY
from antiphon.models.silero_vad import SileroVAD, voice_probabilities
from antiphon.models.smart_turn import SmartTurn
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.voice.end_of_turn import LOOK_SAMPLES
from antiphon.runtime.voice.turn_detection import PAUSE, Began, Completed, Decision, Look, TurnDetector
from conversation import protocol
from conversation.protocol import LEAD_SECONDS, SOUND_LEVEL, WIRE_RATE
from support.sound.recorded_turns import Clip, room_tone
from support.sound.sounds import wav_bytes


@dataclass(frozen=True)
class SequentialTurn:
    """Seconds from the end of speech to each stage's end and to the first sound, with the texts."""

    decided: float
    num_looks: int
    transcribed: float
    answered: float
    first_sound: float
    transcript: str
    answer: str


@dataclass
class _OpenTurn:
    """Turn in progress. `ended` is the end of the whole sentence; ends within it are ignored."""

    detector: TurnDetector
    speech_end: int
    start: int = 0
    look: Look | None = None
    num_looks: int = 0  # looks in the current silence
    is_answered: bool = False
    asked: asyncio.Task[float] | None = None
    ended: int | None = None

    def take(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Began():
                    self.start = decision.start
                case Look():
                    is_same = self.look is not None and self.look.end == decision.end
                    self.num_looks = self.num_looks + 1 if is_same else 1
                    self.look, self.is_answered, self.asked = decision, False, None
                case Completed() if decision.end > self.speech_end - SPEECH_RATE // 2:
                    self.ended = decision.end

    def take_answer(self) -> None:
        if self.asked is not None and self.look is not None and self.asked.done():
            probability, self.asked, self.is_answered = self.asked.result(), None, True
            self.take(self.detector.answer(self.look, probability))


class SequentialPipeline:
    def __init__(self, url: str, transcription_model: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=protocol.TURN_TIMEOUT)
        self._transcription_model = transcription_model
        voice, end = load_model(VOICE_ACTIVITY).model, load_model(END_OF_TURN).model
        assert isinstance(voice, SileroVAD) and isinstance(end, SmartTurn)
        self._voice, self._end = voice, end

    async def close(self) -> None:
        await self._client.aclose()

    async def turn(self, clip: Clip) -> SequentialTurn:
        """Listen to a clip in real time and answer it."""
        lead = room_tone(round(LEAD_SECONDS * SPEECH_RATE), clip, seed=2)
        tail = room_tone(10 * SPEECH_RATE, clip, seed=3)
        sound = np.concatenate([lead, clip.sound, tail])
        speech_end = len(lead) + clip.end
        began = time.monotonic()
        heard, num_looks = await self._hear(sound, speech_end, began)
        spoken = began + speech_end / SPEECH_RATE
        decided = time.monotonic()
        transcript = await self._transcribe(heard)
        transcribed = time.monotonic()
        answer = await self._answer(transcript)
        answered = time.monotonic()
        quiet = await self._speak(answer)
        first = time.monotonic() + quiet
        return SequentialTurn(
            decided - spoken, num_looks, transcribed - spoken, answered - spoken, first - spoken, transcript, answer
        )

    async def _hear(self, sound: Floats, speech_end: int, began: float) -> tuple[Floats, int]:
        """Listen until the turn's end is decided; return its sound, and the number of looks at its end."""
        frame, state, room = self._voice.chunk, self._voice.initial_state(), RoomLevel()
        turn = _OpenTurn(TurnDetector(TurnSettings(TurnDetection.SEMANTIC_VAD), frame), speech_end)
        for end in range(frame, len(sound), frame):
            due = began + end / SPEECH_RATE
            while turn.ended is None and (turn.asked is not None or time.monotonic() < due):
                done, _ = await asyncio.wait(
                    [turn.asked or asyncio.create_task(asyncio.sleep(due - time.monotonic()))],
                    timeout=max(0.0, due - time.monotonic()),
                )
                turn.take_answer()
                if not done:
                    break
            if turn.ended is None:
                [probability] = voice_probabilities(self._voice, [sound[end - frame : end]], [state])[0].tolist()
                turn.take(turn.detector.push(room.voice(sound[end - frame : end], probability)))
            if turn.ended is not None:
                return sound[turn.start : turn.ended + PAUSE], turn.num_looks
            if turn.look is not None and turn.asked is None and not turn.is_answered:
                samples = sound[max(turn.start, end - LOOK_SAMPLES) : end]
                turn.asked = asyncio.create_task(asyncio.to_thread(self._is_complete, samples))
        raise TimeoutError("no end of the turn was found")

    def _is_complete(self, samples: Floats) -> float:
        return self._end.detect([samples])[0]

    async def _transcribe(self, sound: Floats) -> str:
        files = {"file": ("turn.wav", wav_bytes(sound))}
        body = {"model": self._transcription_model}
        reply = await self._client.post("/v1/audio/transcriptions", files=files, data=body)
        return str(reply.raise_for_status().json()["text"]).strip()

    async def _answer(self, transcript: str) -> str:
        messages = [{"role": "system", "content": protocol.INSTRUCTIONS}, {"role": "user", "content": transcript}]
        body = {
            "model": protocol.CHAT_MODEL,
            "messages": messages,
            "temperature": 0,
            "max_tokens": protocol.MAX_TOKENS,
        }
        reply = await self._client.post("/v1/chat/completions", json=body)
        return str(reply.raise_for_status().json()["choices"][0]["message"]["content"])

    async def _speak(self, answer: str) -> float:
        """Synthesize the answer; return the seconds of silence before its first sound."""
        body = {
            "model": protocol.VOICE_MODEL,
            "input": answer,
            "voice": protocol.VOICE,
            "response_format": "pcm",
        }
        reply = await self._client.post("/v1/audio/speech", json=body)
        samples = to_floats(reply.raise_for_status().content, "s16le")
        return float(np.nonzero(np.abs(samples) >= SOUND_LEVEL)[0][0]) / WIRE_RATE
