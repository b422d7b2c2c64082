"""RIFF WAVE files with plain samples, read and written without a library."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from antiphon.audio.pcm import SAMPLE_BYTES
from antiphon.audio.samples import Encoding, RawFormat
from antiphon.errors import AudioError

PCM, FLOAT, ALAW, MULAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_ENCODINGS: dict[tuple[int, int], Encoding] = {
    (PCM, 8): "u8", (PCM, 16): "s16le", (PCM, 24): "s24le", (PCM, 32): "s32le",
    (FLOAT, 32): "f32le", (FLOAT, 64): "f64le", (ALAW, 8): "alaw", (MULAW, 8): "mulaw",
}  # fmt: skip
_TAGS: dict[Encoding, tuple[int, int]] = {encoding: key for key, encoding in _ENCODINGS.items()}

UNKNOWN_LENGTH = 0xFFFFFFFF
_MAX_HEADER = 16 << 20
_STEP = 1 << 16


@dataclass(frozen=True)
class WavHeader:
    """Header before the samples. A streamed file has no `data_bytes`: its samples continue to the end of the file."""

    raw: RawFormat
    data_bytes: int | None


def is_wav(start: bytes) -> bool:
    return len(start) >= 12 and start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE"


def read_header(stream: BinaryIO) -> WavHeader | None:
    """Read up to the first sample. Return None if the codec is not plain samples (ADPCM, MP3 …)."""
    start = _exactly(stream, 12)
    wide = start[:4] == b"RF64"
    raw: RawFormat | None = None
    known = False
    long_data: int | None = None
    total = 0
    while True:
        head = stream.read(8)
        if len(head) < 8:
            raise AudioError("WAV file ends before its samples" if known else "WAV file has no format chunk")
        name, size = head[:4], int.from_bytes(head[4:], "little")
        if name == b"data":
            if not known:
                raise AudioError("WAV file has samples before its format chunk")
            if raw is None:
                return None
            if wide and size == UNKNOWN_LENGTH:
                return WavHeader(raw, long_data)
            return WavHeader(raw, None if size in (0, UNKNOWN_LENGTH) else size)
        total += size + 8
        if total > _MAX_HEADER:
            raise AudioError(f"WAV file has {total} bytes before its samples; at most {_MAX_HEADER} are taken")
        body = _exactly(stream, size + (size & 1), short=True)
        if name == b"fmt ":
            raw, known = _format(body), True
        elif name == b"ds64" and len(body) >= 16:
            long_data = int.from_bytes(body[8:16], "little")


def header(raw: RawFormat, num_samples: int | None = None) -> bytes:
    """Return a header for `num_samples` per channel, or for a stream of unknown length."""
    tag, bits = _TAGS[raw.encoding]
    frame = raw.channels * SAMPLE_BYTES[raw.encoding]
    size = UNKNOWN_LENGTH if num_samples is None else num_samples * frame
    total = UNKNOWN_LENGTH if num_samples is None else size + 36
    head = struct.pack("<4sI4s4sI", b"RIFF", total, b"WAVE", b"fmt ", 16)
    head += struct.pack("<HHIIHH", tag, raw.channels, raw.rate, raw.rate * frame, frame, bits)
    return head + struct.pack("<4sI", b"data", size)


def _format(body: bytes) -> RawFormat | None:
    if len(body) < 16:
        raise AudioError(f"WAV format chunk has {len(body)} bytes; at least 16 are needed")
    tag, channels, rate, _, frame, bits = struct.unpack("<HHIIHH", body[:16])
    if tag == EXTENSIBLE and len(body) >= 26:
        tag = int.from_bytes(body[24:26], "little")
    encoding = _ENCODINGS.get((tag, bits))
    if encoding is None or frame != channels * SAMPLE_BYTES[encoding]:
        return None
    return RawFormat(encoding, rate, channels)


def _exactly(stream: BinaryIO, count: int, short: bool = False) -> bytes:
    """Read `count` bytes. With `short`, the chunk's padding byte may be missing at the file's end."""
    pieces, missing = [], count
    while missing:
        piece = stream.read(min(missing, _STEP))
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    if missing > (1 if short else 0):
        raise AudioError(f"WAV file ends {missing} bytes short inside its header")
    return b"".join(pieces)
