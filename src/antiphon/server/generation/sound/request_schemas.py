"""Request bodies of transcription, translation and speech."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from antiphon.runtime.calls.speech_options import MAX_SPEED, MIN_SPEED
from antiphon.server.web.http.schemas import Body, KeepAlive, ModelBody, Name, Priority

Upload = Annotated[Any, WithJsonSchema({"type": "string", "format": "binary"})]
TranscriptFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
SpeechFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
Granularity = Literal["word", "segment"]


class SoundForm(BaseModel):
    """Form with a recording to transcribe or translate. Numbers and switches are written as text."""

    model_config = ConfigDict(extra="forbid")

    file: Upload
    #: May be omitted if exactly one model fits.
    model: Name | None = None
    prompt: Annotated[str, Field(max_length=100_000)] | None = None
    response_format: TranscriptFormat | None = None
    #: Sampling temperature; 0 is raised automatically where a transcript is repetitive or improbable.
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    #: Number of hypotheses in a beam search at temperature 0.
    beam_size: Annotated[int, Field(ge=1, le=16)] | None = None
    #: Transcribe window by window, using previous text as context, instead of all at once.
    sequential: bool | None = None
    #: Priority: 0 is critical, 1 high, 2 normal.
    priority: Priority | None = None
    #: Report the real-time factor and the time to the first text in `usage`.
    timings: bool | None = None
    keep_alive: KeepAlive | None = None
    #: Send text as it becomes final.
    stream: bool | None = None
    #: Answer with an id once the recording has arrived, and transcribe it afterwards.
    background: bool | None = None
    #: Accepted without effect.
    user: str | None = None


class VoiceActivityOptions(BaseModel):
    """Rules for cutting a recording, accepted without effect."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["server_vad"]
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None
    threshold: float | None = None


class TranslationForm(SoundForm):
    pass


class TranscriptionForm(SoundForm):
    language: Annotated[str, Field(max_length=64)] | None = None
    timestamp_granularities: Annotated[
        list[Granularity], Field(alias="timestamp_granularities[]", min_length=1, max_length=8)
    ] = ["segment"]
    #: Words that the recording may contain; they are added to the prompt.
    keywords: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(alias="keywords[]", max_length=1000)] = []
    #: Possible languages; the model detects the language among several.
    languages: Annotated[list[Annotated[str, Field(max_length=64)]], Field(alias="languages[]", max_length=100)] = []
    #: With `logprobs` and response_format json: the log-probabilities of the text's tokens.
    include: Annotated[list[Literal["logprobs"]], Field(alias="include[]", max_length=8)] = []
    #: Accepted without effect: no response format tells speakers apart.
    known_speaker_names: Annotated[list[str], Field(alias="known_speaker_names[]", max_length=64)] = []
    known_speaker_references: Annotated[list[str], Field(alias="known_speaker_references[]", max_length=64)] = []
    #: Accepted without effect: recordings are always cut at silences.
    chunking_strategy: Literal["auto"] | VoiceActivityOptions | None = None


class VoiceReference(Body):
    id: Name


class SpeechBody(ModelBody):
    input: Annotated[str, Field(min_length=1)]
    #: Name, alias, or mixture such as `af_bella:0.7+af_sky:0.3`; the model's default if omitted.
    voice: Name | VoiceReference | None = None
    response_format: SpeechFormat | None = None
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] | None = None
    stream_format: Literal["audio", "sse"] | None = None
    #: With `stream_format` sse: send the times of words, in an event before the sound of each clause.
    words: bool | None = None
    #: Accepted without effect: no model follows instructions.
    instructions: str | None = None
    #: Language of the text; the voice's own if omitted.
    language: Annotated[str, Field(max_length=64)] | None = None
    #: Phonemes by word.
    pronunciations: Annotated[dict[str, str], Field(max_length=1000)] | None = None
    #: Synthesise only some seconds ahead of playback.
    paced: bool | None = None
    priority: Priority | None = None
    timings: bool | None = None
