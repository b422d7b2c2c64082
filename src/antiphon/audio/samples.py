"""Inputs and outputs of decoding: limits, raw formats, and samples with the facts of their source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import InvalidRequestError

Floats = NDArray[np.float32]

#: Sample encodings of sound without a header: signed and unsigned integers, floats, G.711.
Encoding = Literal["u8", "s16le", "s16be", "s24le", "s32le", "f32le", "f64le", "mulaw", "alaw"]

SPEECH_RATE = 16_000


@dataclass(frozen=True)
class RawFormat:
    """Format of sound without a header. Channels are interleaved."""

    encoding: Encoding
    rate: int
    channels: int = 1


@dataclass(frozen=True)
class DecodeLimits:
    """Limits of decoding one input. Exceeding one raises an `AudioError` with the figure and the limit.

    `max_ratio` bounds decoded bytes (float32 at the target rate) per byte read, for output longer than
    `ratio_free_seconds`: speech codecs stay under 800, digital silence in FLAC under 3000.
    """

    max_bytes: int = 2 << 30
    max_seconds: float = 4 * 3600.0
    max_ratio: float = 5000.0
    ratio_free_seconds: float = 600.0
    max_channels: int = 32
    min_rate: int = 2_000
    max_rate: int = 768_000


@dataclass(frozen=True)
class SourceFacts:
    """Properties of the input before decoding. `seconds` is the length that its header states; None if unknown."""

    rate: int
    channels: int
    codec: str
    seconds: float | None = None


@dataclass(frozen=True)
class Samples:
    """Mono sound: float32 `values` [n] at `rate`. `damaged` counts chunks of the input that could not be decoded."""

    values: Floats
    rate: int
    source: SourceFacts
    damaged: int = 0

    @property
    def seconds(self) -> float:
        return len(self.values) / self.rate


def samples_of(sound: Floats | bytes) -> Floats:
    """Return samples from floats, or from 16-bit little-endian bytes."""
    if isinstance(sound, bytes | bytearray | memoryview):
        if len(sound) % 2:
            raise InvalidRequestError(f"{len(sound)} bytes are not whole 16-bit samples")
        return np.frombuffer(sound, "<i2").astype(np.float32) / 32768.0
    return np.asarray(sound, np.float32)
