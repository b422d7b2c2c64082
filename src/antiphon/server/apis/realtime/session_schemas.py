"""Schemas of `session.update` and `response.create`, whose fields are all optional: only those present take effect."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.web.http.schemas import Metadata

MAX_MS = 3_600_000
Instructions = Annotated[str, Field(max_length=1 << 20)]
ModelName = Annotated[str, Field(min_length=1, max_length=512)]
VoiceName = Annotated[str, Field(max_length=512)]
ToolName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")]
MaxTokens = Annotated[int, Field(ge=1, lt=2**31)] | Literal["inf"]


class Wire(BaseModel):
    """Base of what clients send. Unknown fields are ignored, because OpenAI's service adds fields from time to time."""

    model_config = ConfigDict(extra="ignore", strict=True)


class StrictWire(Wire):
    """Base of settings. Unknown fields are rejected, because the setting would silently have no effect."""

    model_config = ConfigDict(extra="forbid")


class Format(StrictWire):
    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: int | None = None

    @model_validator(mode="after")
    def _has_its_rate(self) -> Self:
        own = 24_000 if self.type == "audio/pcm" else 8_000
        if self.rate not in (None, own):
            raise ValueError(f"{self.type} has a rate of {own}, not {self.rate}")
        return self


class InputTranscription(StrictWire):
    model: ModelName | None = None
    language: Annotated[str, Field(max_length=16)] | None = None
    prompt: Annotated[str, Field(max_length=1 << 16)] | None = None


class NoiseReduction(StrictWire):
    type: Literal["near_field", "far_field"] | None = None


class ServerVad(StrictWire):
    type: Literal["server_vad"]
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Field(ge=0, le=5000)] | None = None
    silence_duration_ms: Annotated[int, Field(ge=100, le=60_000)] | None = None
    idle_timeout_ms: Annotated[int, Field(ge=100, le=MAX_MS)] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class SemanticVad(StrictWire):
    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


TurnDetection = Annotated[ServerVad | SemanticVad, Field(discriminator="type")]


class AudioInput(StrictWire):
    format: Format | None = None
    transcription: InputTranscription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = None


class VoiceId(StrictWire):
    id: VoiceName


class AudioOutput(StrictWire):
    format: Format | None = None
    voice: VoiceName | VoiceId | None = None
    speed: Annotated[float, Field(ge=0.25, le=1.5)] | None = None


class Audio(StrictWire):
    input: AudioInput | None = None
    output: AudioOutput | None = None


class FunctionTool(Wire):
    type: Literal["function"] = "function"
    name: ToolName
    description: str | None = None
    parameters: JsonSchema | None = None


class NamedFunction(Wire):
    type: Literal["function"]
    name: ToolName


ToolChoice = Literal["auto", "none", "required"] | NamedFunction


class Truncation(Wire):
    type: Literal["retention_ratio"]
    retention_ratio: Annotated[float, Field(ge=0, le=1)]
    token_limits: dict[str, Any] | None = None


class Answering(StrictWire):
    """Settings that a session and a single response share."""

    instructions: Instructions | None = None
    output_modalities: list[Literal["text", "audio"]] | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: MaxTokens | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None


class Unused(StrictWire):
    """Fields accepted without effect. A stored prompt has already been rejected."""

    prompt: Any = None
    reasoning: Any = None


class SessionUpdate(Answering, Unused):
    """Settings of `session.update`; a client may send back a whole session, with its fields that cannot change."""

    id: str | None = None
    object: str | None = None
    expires_at: int | None = None
    client_secret: Any = None
    type: Literal["realtime", "transcription"] | None = None
    model: ModelName | None = None
    audio: Audio | None = None
    tracing: Literal["auto"] | dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | Truncation | None = None
    include: list[str] | None = None


class ResponseAudio(StrictWire):
    output: AudioOutput | None = None


class ResponseParams(Answering, Unused):
    """Parameters of `response.create`; the items of `input` are parsed separately."""

    conversation: Literal["auto", "none"] | None = None
    metadata: Metadata | None = None
    audio: ResponseAudio | None = None
    input: list[dict[str, Any]] | None = None
