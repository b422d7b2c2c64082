"""The bodies of requests for transcription and speech, and of their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, WithJsonSchema

from antiphon.runtime.speech_options import MAX_SPEED, MIN_SPEED
from antiphon.server.text.request_schemas import KeepAlive, ModelBody, Name, VoiceReference
from antiphon.server.text.response_schemas import Answer, Count

Upload = Annotated[Any, WithJsonSchema({"type": "string", "format": "binary"})]
TranscriptFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
SpeechFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
Granularity = Literal["word", "segment"]
Priority = Annotated[int, Field(ge=0, le=2)]


class SoundForm(BaseModel):
    """Fields of a form: numbers and switches are written as text."""

    model_config = ConfigDict(extra="forbid")

    file: Upload
    model: Name
    prompt: Annotated[str, Field(max_length=100_000)] | None = None
    response_format: TranscriptFormat | None = None
    #: 0 is raised automatically where a transcript is repetitive or improbable.
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    #: Hypotheses of a beam search at temperature 0.
    beam_size: Annotated[int, Field(ge=1, le=16)] | None = None
    #: Transcribe window by window, using previous text as context, instead of all at once.
    sequential: bool | None = None
    #: 0 is critical, 1 high, 2 normal.
    priority: Priority | None = None
    #: Put the real-time factor and the time to the first text into `usage`.
    timings: bool | None = None
    keep_alive: KeepAlive | None = None
    #: Taken, and of no effect on the answer.
    user: str | None = None


class TranslationForm(SoundForm):
    pass


class TranscriptionForm(SoundForm):
    language: Annotated[str, Field(max_length=64)] | None = None
    stream: bool | None = None
    timestamp_granularities: Annotated[
        list[Granularity], Field(alias="timestamp_granularities[]", min_length=1, max_length=8)
    ] = ["segment"]
    #: Silences are always where a recording is cut.
    chunking_strategy: Literal["auto"] | None = None


class SpeechBody(ModelBody):
    input: Annotated[str, Field(min_length=1)]
    #: A name or alias, or a mixture such as `af_bella:0.7+af_sky:0.3`; the model's default if omitted.
    voice: Name | VoiceReference | None = None
    response_format: SpeechFormat | None = None
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] | None = None
    stream_format: Literal["audio", "sse"] | None = None
    #: Not supported by any model: rejected unless empty.
    instructions: str | None = None
    #: Of the text; the voice's own if omitted.
    language: Annotated[str, Field(max_length=64)] | None = None
    #: Phonemes by word.
    pronunciations: Annotated[dict[str, str], Field(max_length=1000)] | None = None
    #: Synthesise only some seconds ahead of playback.
    paced: bool | None = None
    priority: Priority | None = None
    timings: bool | None = None


# -- answers ------------------------------------------------------------------------------------------------------


class TranscriptTimings(Answer):
    """Seconds, but for the factor, which is seconds of work a second of sound."""

    processing: float
    real_time_factor: float
    time_to_first_text: float | None


class DurationUsage(Answer):
    type: Literal["duration"]
    seconds: float
    timings: TranscriptTimings | None = None


class TranscriptAnswer(Answer):
    text: str
    usage: DurationUsage


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
