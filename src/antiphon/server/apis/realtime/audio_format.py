"""Conversion between sound on the wire (PCM at 24 kHz, G.711 at 8 kHz, in chunks of any length) and float samples."""

from __future__ import annotations

import binascii
from enum import StrEnum

import numpy as np

from antiphon.audio.pcm import to_alaw, to_floats, to_mulaw, to_s16
from antiphon.audio.resample import Resampler
from antiphon.audio.samples import SPEECH_RATE, Encoding, Floats
from antiphon.server.apis.realtime.wire_errors import WireError

#: Characters of base64 decoded at a time, so that other threads run in between.
PIECE_CHARACTERS = 1 << 18


class AudioFormat(StrEnum):
    PCM = "audio/pcm"
    PCMU = "audio/pcmu"
    PCMA = "audio/pcma"

    @property
    def rate(self) -> int:
        return 24_000 if self is AudioFormat.PCM else 8_000

    @property
    def sample_bytes(self) -> int:
        return 2 if self is AudioFormat.PCM else 1

    @property
    def encoding(self) -> Encoding:
        encodings: dict[AudioFormat, Encoding] = {AudioFormat.PCMU: "mulaw", AudioFormat.PCMA: "alaw"}
        return encodings.get(self, "s16le")

    def seconds(self, num_bytes: int) -> float:
        return num_bytes / (self.sample_bytes * self.rate)

    def num_bytes(self, seconds: float) -> int:
        """Return the bytes of `seconds` of sound, rounded to whole samples."""
        return round(seconds * self.rate) * self.sample_bytes


def decode_base64(text: str, param: str, max_bytes: int, start: int = 0, end: int | None = None) -> bytes:
    """Decode the base64 from `start` to `end`. Raises `WireError` if malformed or above `max_bytes`. May block."""
    end = len(text) if end is None else end
    num_bytes = (end - start) // 4 * 3
    if num_bytes > max_bytes + 2:
        raise WireError(f"{param} has {num_bytes:,} bytes; at most {max_bytes:,} are allowed", param)
    try:
        offsets = range(start, end, PIECE_CHARACTERS)
        pieces = (text[offset : min(end, offset + PIECE_CHARACTERS)] for offset in offsets)
        return b"".join(binascii.a2b_base64(piece, strict_mode=True) for piece in pieces)
    except ValueError as error:
        raise WireError(f"{param} is not valid base64: {error}", param, "invalid_audio") from error


class RealtimeSoundInput:
    """Converter from bytes of one format to mono samples at 16 kHz; chunks may end within a sample."""

    def __init__(self, format: AudioFormat) -> None:
        self.format = format
        self._cut = b""
        self._resampler = Resampler(format.rate, SPEECH_RATE)

    def push(self, data: bytes) -> Floats:
        data = self._cut + data if self._cut else data
        whole = len(data) - len(data) % self.format.sample_bytes
        self._cut = data[whole:]
        return self._resampler.push(to_floats(memoryview(data)[:whole], self.format.encoding))

    def flush(self) -> Floats:
        """Return the samples that the resampler still holds, and prepare for a new sound."""
        rest = self._resampler.finish()
        self._cut = b""
        self._resampler = Resampler(self.format.rate, SPEECH_RATE)
        return rest


class SoundOutput:
    """Converter from mono samples of one rate to bytes of one format."""

    def __init__(self, format: AudioFormat, rate: int) -> None:
        self._format = format
        self._resampler = Resampler(rate, format.rate)

    def push(self, samples: Floats) -> bytes:
        return self._encoded(self._resampler.push(samples))

    def finish(self) -> bytes:
        return self._encoded(self._resampler.finish())

    def _encoded(self, samples: Floats) -> bytes:
        match self._format:
            case AudioFormat.PCMU:
                return to_mulaw(samples)
            case AudioFormat.PCMA:
                return to_alaw(samples)
        return to_s16(samples).tobytes()


def decoded_sound(data: bytes, format: AudioFormat) -> Floats:
    """Decode a complete sound into samples at 16 kHz."""
    sound = RealtimeSoundInput(format)
    return np.concatenate([sound.push(data), sound.flush()])
