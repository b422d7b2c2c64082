"""Conversion of plain samples between bytes (integers, floats and G.711) and float32."""

from __future__ import annotations

from functools import cache
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.samples import Encoding, Floats, RawFormat
from antiphon.errors import AudioError

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
SAMPLE_BYTES: dict[Encoding, int] = {
    "u8": 1, "s16le": 2, "s16be": 2, "s24le": 3, "s32le": 4, "f32le": 4, "f64le": 8, "mulaw": 1, "alaw": 1,
}  # fmt: skip


def to_floats(data: bytes | memoryview, encoding: Encoding) -> Floats:
    """Decode complete samples to floats in [-1, 1]. Integers are divided by their greatest magnitude."""
    match encoding:
        case "u8":
            return (np.frombuffer(data, np.uint8).astype(np.float32) - 128.0) / 128.0
        case "s16le" | "s16be":
            return np.frombuffer(data, "<i2" if encoding == "s16le" else ">i2").astype(np.float32) / 32768.0
        case "s24le":
            wide = np.zeros((len(data) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            return (wide.view("<i4")[:, 0] / np.float64(1 << 31)).astype(np.float32)
        case "s32le":
            return (np.frombuffer(data, "<i4") / np.float64(1 << 31)).astype(np.float32)
        case "f32le":
            return np.frombuffer(data, "<f4").astype(np.float32)
        case "f64le":
            return np.frombuffer(data, "<f8").astype(np.float32)
        case "mulaw":
            return mulaw_table()[np.frombuffer(data, np.uint8)]
        case "alaw":
            return alaw_table()[np.frombuffer(data, np.uint8)]
    raise AudioError(f"unknown sample encoding {encoding!r}; known: {', '.join(ENCODINGS)}")


def to_s16(samples: Floats) -> NDArray[np.int16]:
    """Return 16-bit samples, rounded to nearest and clipped."""
    return cast("NDArray[np.int16]", np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2"))


def to_mulaw(samples: Floats) -> bytes:
    """Encode G.711 µ-law: each sample as the byte of the nearest value."""
    return _nearest("mulaw")[to_s16(samples).view(np.uint16)].tobytes()


def to_alaw(samples: Floats) -> bytes:
    """Encode G.711 A-law: each sample as the byte of the nearest value."""
    return _nearest("alaw")[to_s16(samples).view(np.uint16)].tobytes()


@cache
def _nearest(encoding: Encoding) -> NDArray[np.uint8]:
    """Return the byte for each 16-bit sample, indexed by the sample's bits."""
    levels = to_floats(bytes(range(256)), encoding)
    order = np.argsort(levels, kind="stable")
    middles = (levels[order][1:] + levels[order][:-1]) / 2
    values = np.arange(1 << 16, dtype=np.uint16).view(np.int16) / np.float32(32768.0)
    return order[np.searchsorted(middles, values)].astype(np.uint8)


def check_raw(raw: RawFormat) -> None:
    if raw.encoding not in SAMPLE_BYTES:
        raise AudioError(f"unknown sample encoding {raw.encoding!r}; known: {', '.join(ENCODINGS)}")


@cache
def mulaw_table() -> Floats:
    """Return the value of every byte in G.711 µ-law."""
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = ((((code & 0x0F) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84
    return (np.where(code & 0x80, -magnitude, magnitude) / 32768.0).astype(np.float32)


@cache
def alaw_table() -> Floats:
    """Return the value of every byte in G.711 A-law."""
    code = np.arange(256, dtype=np.int32) ^ 0x55
    mantissa, exponent = (code & 0x0F) << 4, (code >> 4) & 7
    magnitude = np.where(exponent == 0, mantissa + 8, (mantissa + 0x108) << np.maximum(exponent - 1, 0))
    return (np.where(code & 0x80, magnitude, -magnitude) / 32768.0).astype(np.float32)
