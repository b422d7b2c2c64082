"""Response schemas of transcription and speech, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import RootModel

from antiphon.server.apis.openai.audio.background_job import Status
from antiphon.server.generation.sound.request_schemas import TranscriptFormat
from antiphon.server.web.http.schemas import AnswerBody, Count


class TranscriptTimings(AnswerBody):
    """Seconds, except the factor: seconds of processing per second of sound."""

    processing: float
    real_time_factor: float
    time_to_first_text: float | None


class DurationUsage(AnswerBody):
    type: Literal["duration"]
    seconds: float
    timings: TranscriptTimings | None = None


class TranscriptToken(AnswerBody):
    token: str
    logprob: float
    bytes: list[int]


class TranscriptAnswer(AnswerBody):
    text: str
    usage: DurationUsage
    logprobs: list[TranscriptToken] | None = None


class TranscriptSegment(AnswerBody):
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


class TranscriptWord(AnswerBody):
    word: str
    start: float
    end: float


class VerboseTranscriptAnswer(AnswerBody):
    text: str
    usage: DurationUsage
    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    segments: list[TranscriptSegment] | None = None
    words: list[TranscriptWord] | None = None


class TranscriptionProgress(AnswerBody):
    """Seconds transcribed. `duration` is null until known from the recording's header or from its end."""

    seconds: float
    duration: float | None
    fraction: float | None


class TranscriptionFailure(AnswerBody):
    code: str
    message: str
    param: str | None


class PartialTranscriptAnswer(AnswerBody):
    text: str
    segments: list[TranscriptSegment]
    seconds: float


class TranscriptionSummary(AnswerBody):
    """A transcription in the background, without its text."""

    id: str
    object: Literal["audio.transcription"]
    status: Status
    background: Literal[True]
    task: Literal["transcribe", "translate"]
    model: str
    response_format: TranscriptFormat
    created_at: Count
    started_at: Count | None
    completed_at: Count | None
    ended_at: Count | None
    expires_at: Count | None
    progress: TranscriptionProgress
    error: TranscriptionFailure | None


class BackgroundTranscriptionAnswer(TranscriptionSummary):
    #: Text so far; null once the transcription is completed.
    partial: PartialTranscriptAnswer | None
    #: Transcript in the requested response format: an object, or text.
    result: TranscriptAnswer | VerboseTranscriptAnswer | str | None


class TranscriptionsAnswer(AnswerBody):
    object: Literal["list"]
    data: list[TranscriptionSummary]
    first_id: str
    last_id: str
    has_more: bool


class DeletedTranscription(AnswerBody):
    id: str
    object: Literal["audio.transcription"]
    deleted: Literal[True]


class AnyTranscriptAnswer(RootModel[TranscriptAnswer | VerboseTranscriptAnswer | BackgroundTranscriptionAnswer]):
    """Transcript in the format `json` or `verbose_json`, or the state of a transcription in the background."""


class VoiceAnswer(AnswerBody):
    id: str
    object: Literal["voice"]
    name: str
    language: str
    gender: str | None
    #: Other names of this voice.
    aliases: list[str]
    #: Voice that this name is an alias of; null if the name is not an alias.
    same_as: str | None


class VoicesAnswer(AnswerBody):
    object: Literal["list"]
    model: str
    default: str
    data: list[VoiceAnswer]
