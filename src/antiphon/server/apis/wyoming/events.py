"""Values of clients' events. An invalid value raises an `ApiError` that names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antiphon.audio.samples import DecodeLimits
from antiphon.server.apis.wyoming.frames import Frame
from antiphon.server.web.http.errors import ApiError, invalid

#: Supported bytes per sample.
WIDTHS = (1, 2, 3, 4)
MAX_NAME = 512
MAX_TERMS = 1000
#: Seconds of silence that end speech, by `vad_sensitivity`.
MIN_SILENCE = {"relaxed": 1.0, "default": 0.5, "aggressive": 0.25}


@dataclass(frozen=True)
class SoundFormat:
    """Format of integer samples: little-endian, channels interleaved; one-byte samples are unsigned."""

    rate: int
    width: int
    channels: int


@dataclass(frozen=True)
class WantedTranscript:
    """Content of `transcribe`: a model or a language, likely words, and the silence that ends speech, in seconds."""

    name: str | None = None
    language: str | None = None
    terms: tuple[str, ...] = ()
    min_silence: float = MIN_SILENCE["default"]


@dataclass(frozen=True)
class WantedVoice:
    """Voice of a `synthesize` or `synthesize-start`."""

    name: str | None = None
    language: str | None = None
    speaker: str | None = None


def unexpected(frame: Frame, wanted: str) -> ApiError:
    return invalid(f"{frame.type} came where {wanted} was expected", code="unexpected_event")


def sound_format(frame: Frame, default: SoundFormat | None = None) -> SoundFormat:
    """Return the format in an `audio-start` or `audio-chunk`, or `default` if the frame has none."""
    fields = ("rate", "width", "channels")
    if default is not None and not any(name in frame.data for name in fields):
        return default
    rate, width, channels = (_whole(frame, name) for name in fields)
    limits = DecodeLimits()
    if not limits.min_rate <= rate <= limits.max_rate:
        raise invalid(f"{frame.type}: rate is {rate}; it must be from {limits.min_rate} to {limits.max_rate}", "rate")
    if width not in WIDTHS:
        raise invalid(f"{frame.type}: width is {width}; it must be 1, 2, 3 or 4 bytes", "width")
    if not 1 <= channels <= limits.max_channels:
        raise invalid(f"{frame.type}: channels is {channels}; it must be from 1 to {limits.max_channels}", "channels")
    return SoundFormat(rate, width, channels)


def timestamp(frame: Frame) -> int:
    """Return the frame's timestamp in milliseconds, 0 if it has none."""
    return _whole(frame, "timestamp") if frame.data.get("timestamp") is not None else 0


def wanted_transcript(frame: Frame) -> WantedTranscript:
    terms = [term for name in ("transcript_names", "transcript_terms") for term in _texts(frame, name)]
    sensitivity = text(frame, "vad_sensitivity", MAX_NAME) or "default"
    if sensitivity not in MIN_SILENCE:
        raise invalid(f"transcribe: vad_sensitivity must be one of: {', '.join(MIN_SILENCE)}", "vad_sensitivity")
    name, language = (text(frame, key, MAX_NAME) for key in ("name", "language"))
    return WantedTranscript(name, language, tuple(terms), MIN_SILENCE[sensitivity])


def wanted_voice(frame: Frame) -> WantedVoice:
    if text(frame, "text_format", MAX_NAME) not in (None, "text"):
        raise invalid(f"{frame.type}: text_format must be text", "text_format", "unsupported_value")
    voice = frame.data.get("voice")
    if voice is None:
        return WantedVoice()
    if not isinstance(voice, dict):
        raise invalid(f"{frame.type}: voice must be an object", "voice")
    inner = Frame(f"{frame.type}: voice", voice)
    return WantedVoice(*(text(inner, key, MAX_NAME) for key in ("name", "language", "speaker")))


def text(frame: Frame, name: str, limit: int) -> str | None:
    """Return a string, or None if it is missing, null or empty. Raises `ApiError` above `limit` characters."""
    value = frame.data.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"{frame.type}: {name} must be a string", name)
    if len(value) > limit:
        raise invalid(f"{frame.type}: {name} has {len(value):,} characters; at most {limit:,} are allowed", name)
    return value or None


def _texts(frame: Frame, name: str) -> list[str]:
    values = frame.data.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or len(values) > MAX_TERMS:
        raise invalid(f"{frame.type}: {name} must be a list of at most {MAX_TERMS} strings", name)
    return [term for value in values if (term := text(Frame(frame.type, {name: value}), name, MAX_NAME))]


def _whole(frame: Frame, name: str) -> int:
    value: Any = frame.data.get(name)
    if type(value) is not int:
        raise invalid(f"{frame.type}: {name} must be a whole number", name)
    return value
