"""A speech on its way: made in the engine, encoded here as it comes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from antiphon.audio.encode import AudioFormat, Encoder
from antiphon.errors import AntiphonError, AudioError, EngineError
from antiphon.runtime.messages import Speak, SpeechPart, Spoken
from antiphon.runtime.speak_stream import SpeakStream
from antiphon.runtime.speech import SpeechStats
from antiphon.runtime.speech_options import SpeechOptions
from antiphon.runtime.voice_aliases import aliases_for, parts_of, unknown_voice, without_aliases
from antiphon.server.http.errors import SERVER, ApiError, api_error, invalid
from antiphon.server.serving.models import ReadyModel, engine_failure, engine_unavailable
from antiphon.server.serving.serving import Serving
from antiphon.server.sound.request_schemas import VoiceReference

#: Frames that the models' durations are counted in, a second of speech, which count as the tokens that went out.
TOKENS_PER_SECOND = 40


class Speaking:
    """Of one text, whole or still being written. Always closed: closing ends whatever still runs."""

    def __init__(
        self, serving: Serving, model: ReadyModel, text: str, options: SpeechOptions, *, is_open: bool = False
    ) -> None:
        self._serving = serving
        self._model = model
        self._call = Speak(uuid.uuid4().hex, model.name, text, options, is_open)
        self._stream: SpeakStream | None = None
        self.stats: SpeechStats | None = None

    def begin(self) -> None:
        """Hand it to the engine; what that refuses is raised by `parts`."""
        try:
            self._stream = self._serving.client.speak(self._call)
        except EngineError as error:
            raise engine_unavailable(self._serving.client) from error

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def append(self, text: str) -> None:
        assert self._stream is not None
        self._stream.append(text)

    def end_text(self) -> None:
        assert self._stream is not None
        self._stream.end_text()

    async def parts(self) -> AsyncIterator[SpeechPart]:
        """The sound of clause after clause; `stats` is there after the last. Every failure is an `ApiError`."""
        assert self._stream is not None
        try:
            async for told in self._stream:
                if isinstance(told, Spoken):
                    self.stats = told.stats
                    self._serving.metrics.sound.spoke(self._model.name, told.stats)
                else:
                    yield told
        except EngineError as error:
            raise engine_failure(self._serving.client, error) from error
        except AntiphonError as error:
            raise api_error(error) from error
        finally:
            self.close()
        if self.stats is None:
            raise ApiError(500, "the engine ended a speech early", code="engine_error", kind=SERVER)

    async def encoded(self, format: AudioFormat) -> AsyncIterator[bytes]:
        """The bytes of a file, as soon as there are samples for them."""
        encoder: Encoder | None = None
        parts = self.parts()
        try:
            async for part in parts:
                if encoder is None:
                    encoder = await asyncio.to_thread(Encoder, format, part.rate)
                data = await asyncio.to_thread(encoder.push, np.frombuffer(part.samples, np.float32))
                if data:
                    yield data
            assert encoder is not None
            last = await asyncio.to_thread(encoder.finish)
            if last:
                yield last
        except AudioError as error:  # the samples are our own, so it is no fault of the client
            raise ApiError(
                500, f"the speech could not be encoded: {error}", code="engine_error", kind=SERVER
            ) from error
        except AntiphonError as error:
            raise api_error(error) from error
        finally:
            await parts.aclose()  # type: ignore[attr-defined]


def voice_aliases(serving: Serving, model: ReadyModel) -> dict[str, str]:
    """Further names of a model's voices, and what they lead to."""
    names = [known.name for known in model.loaded.voices]
    return aliases_for(names, model.loaded.default_voice or names[0], serving.config.voice_aliases)


def voice_of(serving: Serving, model: ReadyModel, asked: str | VoiceReference | None, param: str) -> str | None:
    """The voice that a request asks for, without aliases; an unknown name is an error that lists the known ones.

    The shape of a mixture is checked in the engine.
    """
    if asked is None:
        return None
    aliases = voice_aliases(serving, model)
    voice = without_aliases(asked if isinstance(asked, str) else asked.id, aliases)
    names = [known.name for known in model.loaded.voices]
    for name, _ in parts_of(voice):
        if name not in names:
            raise invalid(f"model {model.name!r}: {unknown_voice(name, names, aliases)}", param)
    return voice


def speech_usage(stats: SpeechStats, with_timings: bool) -> dict[str, Any]:
    made = round(stats.audio_seconds * TOKENS_PER_SECOND)
    usage: dict[str, Any] = {
        "input_tokens": stats.num_phonemes,
        "output_tokens": made,
        "total_tokens": stats.num_phonemes + made,
        "seconds": round(stats.audio_seconds, 3),
        "unreadable_characters": stats.num_skipped_characters,
        "unreadable": list(stats.skipped),
    }
    if with_timings:
        usage["timings"] = {
            "processing": stats.processing_seconds,
            "real_time_factor": stats.real_time_factor,
            "time_to_first_audio": stats.time_to_first_audio,
            "worst_deficit": stats.worst_deficit,
        }
    return usage


def note_spoken(figures: dict[str, Any], stats: SpeechStats) -> None:
    """For the request's log line."""
    figures["audio_seconds"] = round(stats.audio_seconds, 3)
    figures["real_time_factor"] = round(stats.real_time_factor, 4)
    figures["time_to_first_audio"] = round(stats.time_to_first_audio, 4)
