"""Translation of settings from the beta version of the API to today's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.server.apis.realtime.wire_errors import WireError

#: Path of the setting in today's session, by beta field.
PATHS: Mapping[str, tuple[str, ...]] = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "output_audio_format": ("audio", "output", "format"),
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
}
#: Beta fields that a single response accepts.
RESPONSE_FIELDS = frozenset({"modalities", "max_response_output_tokens", "voice", "speed", "output_audio_format"})
FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}


def without_beta_fields(
    given: Mapping[str, Any], prefix: str, fields: frozenset[str] = frozenset(PATHS)
) -> dict[str, Any]:
    """Return the settings under today's names. Raises `WireError` if a setting is given under both of its names."""
    made = {name: value for name, value in given.items() if name not in fields}
    for name in given:
        if name in fields:
            _put(made, PATHS[name], _value(name, given[name], prefix), f"{prefix}.{name}", prefix)
    return made


def _put(made: dict[str, Any], path: tuple[str, ...], value: Any, param: str, prefix: str) -> None:
    *parents, last = path
    values = made
    for parent in parents:
        inner = values.get(parent)
        if inner is not None and not isinstance(inner, Mapping):
            return  # validation rejects it
        values[parent] = dict(inner or {})
        values = values[parent]
    if last in values:
        written = ".".join((prefix, *path))
        raise WireError(f"{param} and {written} are the same setting; send {written} alone", param)
    values[last] = value


def _value(name: str, value: Any, prefix: str) -> Any:
    if name == "modalities" and isinstance(value, list) and len(value) == 2 and set(value) == {"text", "audio"}:
        return ["audio"]  # in the beta version, sound with its transcript
    if name.endswith("_audio_format") and value is not None:
        if not isinstance(value, str) or value not in FORMATS:
            known = ", ".join(FORMATS)
            param = f"{prefix}.{name}"
            raise WireError(f"{param} is {str(value)[:100]!r}; it must be one of {known}", param)
        return {"type": FORMATS[value]}
    return value
