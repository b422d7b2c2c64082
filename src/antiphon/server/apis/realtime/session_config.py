"""`SessionConfig`: the effective session: its defaults, its updates, and its meaning as voice settings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import Eagerness, TurnDetection, TurnSettings
from antiphon.runtime.voice.settings import Modality, ToolChoice, ToolDefinition, VoiceSettings
from antiphon.server.apis.realtime.audio_format import AudioFormat
from antiphon.server.apis.realtime.beta_fields import RESPONSE_FIELDS, without_beta_fields
from antiphon.server.apis.realtime.session_schemas import Answering, ResponseParams, SessionUpdate
from antiphon.server.apis.realtime.wire_errors import WireError

#: Defaults restored when a field is set to null.
SERVER_VAD = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
SEMANTIC_VAD = {"type": "semantic_vad", "eagerness": "auto", "create_response": True, "interrupt_response": True}
PCM = {"type": "audio/pcm", "rate": 24000}
INPUT = {"format": PCM, "transcription": None, "noise_reduction": None, "turn_detection": SERVER_VAD}
OUTPUT = {"format": PCM, "voice": "alloy", "speed": 1.0}
REALTIME = {
    "instructions": "",
    "output_modalities": ["audio"],
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": None,
    "max_output_tokens": None,
    "temperature": None,
    "tracing": None,
    "truncation": "auto",
    "include": None,
    "audio": {"input": INPUT, "output": OUTPUT},
}
#: Default transcription of a transcription session.
TRANSCRIPTION = {"model": "whisper-1", "language": None, "prompt": None}
#: Settings shown only if the client set them, because the model has defaults of its own.
UNSHOWN = ("temperature", "parallel_tool_calls")
#: Fields accepted without effect: noise is not reduced, and the others cannot change.
UNUSED = {"noise_reduction", "prompt", "reasoning", "id", "object", "expires_at", "client_secret"}
#: Values of `include` with an effect, both unknown to OpenAI's API; others are accepted without effect.
UNSETTLED = "item.input_audio_transcription.unsettled"
WORDS = "item.input_audio_transcription.words"


class SessionConfig:
    """The session as clients see it. An update returns a new one; a rejected update changes nothing.

    `model` answers, or transcribes in a transcription session.
    """

    def __init__(self, session_id: str, model: str, expires_at: int, *, is_transcription: bool = False) -> None:
        self.id = session_id
        self._fixed = {"object": "realtime.session", "id": session_id, "expires_at": expires_at}
        self._values: dict[str, Any] = {"type": "realtime", "model": model, **copy.deepcopy(REALTIME)}
        if is_transcription:
            self._values["type"] = "transcription"
            self._input["transcription"] = {**TRANSCRIPTION, "model": model}

    @property
    def _input(self) -> dict[str, Any]:
        values: dict[str, Any] = self._values["audio"]["input"]
        return values

    @property
    def is_transcription(self) -> bool:
        return bool(self._values["type"] == "transcription")

    @property
    def model(self) -> str:
        return str(self._values["model"])

    @property
    def transcription_model(self) -> str | None:
        found = self._input["transcription"]
        return None if found is None else found["model"]

    @property
    def input_format(self) -> AudioFormat:
        return AudioFormat(self._input["format"]["type"])

    @property
    def output_format(self) -> AudioFormat:
        return AudioFormat(self._values["audio"]["output"]["format"]["type"])

    @property
    def is_manual(self) -> bool:
        """Whether the client ends turns."""
        return self._input["turn_detection"] is None

    def wire(self) -> dict[str, Any]:
        """Return the complete effective session."""
        values = copy.deepcopy(self._values)
        values["include"] = None  # clients know only OpenAI's names
        values["max_output_tokens"] = self.settings().token_limit or "inf"
        for name in UNSHOWN:
            if values[name] is None:
                del values[name]
        if not self.is_transcription:
            return {**self._fixed, **values}
        fixed = {**self._fixed, "object": "realtime.transcription_session"}
        audio = {"input": values["audio"]["input"]}
        return {**fixed, "type": "transcription", "audio": audio, "include": values["include"]}

    def updated(self, given: Mapping[str, Any]) -> SessionConfig:
        """Return the session with the given fields changed. Raises `WireError` for a value that is not allowed."""
        _reject_unsupported(given, "session")
        given = without_beta_fields(given, "session")
        made = copy.copy(self)
        made._values = copy.deepcopy(self._values)
        update = _validated(SessionUpdate, _with_types(given, made._input), "session")
        present = update.model_dump(exclude_unset=True)
        if present.get("tools"):
            present["tools"] = [{"type": "function", **tool} for tool in present["tools"]]
        if present.get("include"):
            present["include"] = [name for name in present["include"] if name in (UNSETTLED, WORDS)] or None
        audio = present.pop("audio", None)
        made._merge(made._values, {name: value for name, value in present.items() if name not in UNUSED}, REALTIME)
        if "audio" in update.model_fields_set:
            made._merge_audio(audio)
        if made.is_transcription and made._input["transcription"] is None:
            made._input["transcription"] = dict(TRANSCRIPTION)
        made.settings()  # raises if values contradict each other
        return made

    def _merge_audio(self, audio: dict[str, Any] | None) -> None:
        if audio is None:
            self._values["audio"] = copy.deepcopy(REALTIME["audio"])
            return
        for side, defaults in (("input", INPUT), ("output", OUTPUT)):
            if side not in audio:
                continue
            given = audio[side]
            if given is None:
                self._values["audio"][side] = copy.deepcopy(defaults)
                continue
            held = self._values["audio"][side]
            if "turn_detection" in given:
                held["turn_detection"] = _merged_detection(held["turn_detection"], given.pop("turn_detection"))
            if "transcription" in given:
                held["transcription"] = _merged_transcription(held["transcription"], given.pop("transcription"))
            if given.get("format") is not None:
                given["format"] = wire_format(AudioFormat(given["format"]["type"]))
            if given.get("voice") == "":
                given["voice"] = None
            self._merge(held, {name: value for name, value in given.items() if name not in UNUSED}, defaults)

    @staticmethod
    def _merge(held: dict[str, Any], given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Set the given fields; null restores a field's default, and is ignored for the type and the model."""
        for name, value in given.items():
            if value is not None:
                held[name] = value
            elif name in defaults:
                held[name] = copy.deepcopy(defaults[name])

    # -- voice settings -----------------------------------------------------------------------------------------

    def settings(self) -> VoiceSettings:
        """Return the settings for the voice session; models and voices are named as the client named them."""
        values, output = self._values, self._values["audio"]["output"]
        detection, transcription = self._input["turn_detection"], self._input["transcription"]
        voice, included = output["voice"], values["include"] or ()
        answering = Answering.model_construct(**{name: values[name] for name in Answering.model_fields})
        base = VoiceSettings(
            model=values["model"],
            voice=voice["id"] if isinstance(voice, dict) else voice,
            speed=output["speed"],
            turns=_turn_settings(detection),
            create_response=detection is not None and detection["create_response"],
            interrupt_response=detection is None or detection["interrupt_response"],
            transcription_model=self.transcription_model,
            transcription=TranscriptionOptions(
                language=(transcription or {}).get("language") or None,
                prompt=(transcription or {}).get("prompt") or "",
                words=transcription is not None and WORDS in included,
            ),
            show_transcripts=transcription is not None,
            show_unsettled=transcription is not None and UNSETTLED in included,
            truncate_history=values["truncation"] != "disabled",
            answer=not self.is_transcription,
        )
        return _answering(base, answering, set(Answering.model_fields), "session")

    def response_settings(self, params: ResponseParams) -> VoiceSettings:
        """Return the settings of one response: the session's, changed by those of the response."""
        settings = _answering(self.settings(), params, params.model_fields_set, "response")
        output = params.audio.output if params.audio is not None else None
        if output is not None and output.voice:
            settings = replace(settings, voice=output.voice if isinstance(output.voice, str) else output.voice.id)
        if output is not None and output.speed is not None:
            settings = replace(settings, speed=output.speed)
        return settings


def wire_format(format: AudioFormat) -> dict[str, Any]:
    return {"type": str(format), "rate": 24000} if format is AudioFormat.PCM else {"type": str(format)}


def _validated(schema: type[SessionUpdate], given: Mapping[str, Any], prefix: str) -> SessionUpdate:
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        raise WireError.of_validation(error, prefix) from error


def _with_types(given: Mapping[str, Any], held: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the update; turn detection without a type gets the type of the session's."""
    audio = given.get("audio")
    side = audio.get("input") if isinstance(audio, dict) else None
    detection = side.get("turn_detection") if isinstance(side, dict) else None
    if not isinstance(audio, dict) or not isinstance(side, dict) or not isinstance(detection, dict):
        return given
    if "type" in detection:
        return given
    kind = (held["turn_detection"] or SERVER_VAD)["type"]
    return {**given, "audio": {**audio, "input": {**side, "turn_detection": {**detection, "type": kind}}}}


def _merged_detection(held: dict[str, Any] | None, given: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the updated turn detection; a new type starts from its own defaults."""
    if given is None:
        return None
    defaults = SERVER_VAD if given["type"] == "server_vad" else SEMANTIC_VAD
    base = held if held is not None and held["type"] == given["type"] else defaults
    return {**base, **{name: defaults[name] if value is None else value for name, value in given.items()}}


def _merged_transcription(held: dict[str, Any] | None, given: dict[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    merged = {**(held or TRANSCRIPTION), **given}
    return {name: merged[name] or TRANSCRIPTION[name] for name in TRANSCRIPTION}


def _turn_settings(detection: Mapping[str, Any] | None) -> TurnSettings:
    if detection is None:
        return TurnSettings(TurnDetection.MANUAL)
    if detection["type"] == "semantic_vad":
        return TurnSettings(TurnDetection.SEMANTIC_VAD, eagerness=Eagerness(detection["eagerness"]))
    try:
        return TurnSettings(
            TurnDetection.SERVER_VAD,
            threshold=detection["threshold"],
            prefix_ms=detection["prefix_padding_ms"],
            silence_ms=detection["silence_duration_ms"],
            idle_timeout_ms=detection["idle_timeout_ms"],
        )
    except InvalidRequestError as error:
        raise WireError(str(error), "session.audio.input.turn_detection") from error


def _answering(base: VoiceSettings, given: Answering, present: set[str], prefix: str) -> VoiceSettings:
    """Return `base` with the fields of `given` named in `present`; null and empty values clear a setting."""
    changes: dict[str, Any] = {}
    if "instructions" in present:
        changes["instructions"] = given.instructions or ""
    if "output_modalities" in present:
        changes["modality"] = _modality(given.output_modalities, f"{prefix}.output_modalities")
    if "tools" in present:
        changes["tools"] = tuple(_tool(tool) for tool in given.tools or ())
    if "tool_choice" in present:
        changes |= _tool_choice(given.tool_choice)
    if "parallel_tool_calls" in present:
        changes["parallel_tools"] = given.parallel_tool_calls
    if "max_output_tokens" in present:
        changes["max_tokens"] = given.max_output_tokens
    if "temperature" in present:
        changes["temperature"] = given.temperature
    made = replace(base, **changes)
    if not made.tools:  # without tools, a choice has no effect
        return replace(made, tool_choice=ToolChoice.AUTO, tool_name=None)
    if made.tool_name is not None and made.tool_name not in {tool.name for tool in made.tools}:
        raise WireError(f"tool_choice names {made.tool_name!r}, which is not a tool here", f"{prefix}.tool_choice")
    return made


def _modality(given: Sequence[str] | None, param: str) -> Modality:
    """Return the only modality; the default is audio, which includes a transcript."""
    if not given:
        return Modality.AUDIO
    if len(given) > 1:
        message = f'{param} has {len(given)} values; it must be ["audio"], which includes a transcript, or ["text"]'
        raise WireError(message, param)
    return Modality(given[0])


def _tool(tool: Any) -> ToolDefinition:
    """Convert a tool, given as a schema or as one of the session's stored values."""
    values = tool if isinstance(tool, dict) else tool.model_dump()
    return ToolDefinition(values["name"], values.get("description") or "", values.get("parameters") or {})


def _tool_choice(choice: Any) -> dict[str, Any]:
    if choice is None:
        return {"tool_choice": ToolChoice.AUTO, "tool_name": None}
    if isinstance(choice, str):
        return {"tool_choice": ToolChoice(choice), "tool_name": None}
    name = choice["name"] if isinstance(choice, dict) else choice.name
    return {"tool_choice": ToolChoice.REQUIRED, "tool_name": name}


def _reject_unsupported(given: Mapping[str, Any], prefix: str) -> None:
    """Reject fields that would change the session's meaning if they were ignored."""
    if not isinstance(given, Mapping):
        raise WireError(f"{prefix} must be an object", prefix, "invalid_type")
    if given.get("prompt"):
        raise WireError("stored prompts are not supported; send instructions", f"{prefix}.prompt", "unsupported_value")
    tools = given.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict) and tool.get("type") == "mcp":
            message = "MCP tools are not supported; call the server yourself and offer its tools as functions"
            raise WireError(message, f"{prefix}.tools.{index}", "unsupported_value")


def response_params(given: Mapping[str, Any] | None) -> ResponseParams:
    """Validate the parameters of `response.create`."""
    given = given or {}
    _reject_unsupported(given, "response")
    given = without_beta_fields(given, "response", RESPONSE_FIELDS)
    try:
        return ResponseParams.model_validate(given)
    except ValidationError as error:
        raise WireError.of_validation(error, "response") from error
