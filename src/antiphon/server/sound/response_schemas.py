"""The answers about transcription and speech, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import RootModel

from antiphon.server.http.schemas import Answer, Count


class TranscriptTimings(Answer):
    """Seconds, but for the factor, which is seconds of work a second of sound."""

    processing: float
    real_time_factor: float
    time_to_first_text: float | None


class DurationUsage(Answer):
    type: Literal["duration"]
    seconds: float
    timings: TranscriptTimings | None = None


class TranscriptToken(Answer):
    token: str
    logprob: float
    bytes: list[int]


class TranscriptAnswer(Answer):
    text: str
    usage: DurationUsage
    logprobs: list[TranscriptToken] | None = None


class TranscriptSegment(Answer):
    id: Count
    seek: Count
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class TranscriptWord(Answer):
    word: str
    start: float
    end: float


class VerboseTranscriptAnswer(Answer):
    text: str
    usage: DurationUsage
    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    segments: list[TranscriptSegment] | None = None
    words: list[TranscriptWord] | None = None


class AnyTranscriptAnswer(RootModel[TranscriptAnswer | VerboseTranscriptAnswer]):
    """As `response_format` says: `json` or `verbose_json`."""


class VoiceAnswer(Answer):
    id: str
    object: Literal["voice"]
    name: str
    language: str
    gender: str | None
    #: Further names of this voice.
    aliases: list[str]
    #: The voice that this name is an alias of; null for a voice of its own.
    same_as: str | None


class VoicesAnswer(Answer):
    object: Literal["list"]
    model: str
    default: str
    data: list[VoiceAnswer]
