"""`open_sound`: sound for a transcription, from a path, bytes, a file or samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.samples import SPEECH_RATE, DecodeLimits, Floats, RawFormat
from antiphon.errors import AudioError
from antiphon.runtime.transcription.transcriber import SoundChunks

#: A path, the bytes of a file, an open file, or samples at 16 kHz.
SoundSource = str | Path | bytes | BinaryIO | NDArray[np.floating]

CHUNK_SECONDS = 30.0


def open_sound(source: SoundSource, *, raw: RawFormat | None = None, limits: DecodeLimits | None = None) -> SoundChunks:
    """Return mono sound at 16 kHz in chunks, decoded as it is read. Invalid input raises here or on reading."""
    if isinstance(source, np.ndarray):
        return _samples(source)
    from antiphon.audio.decode import decode_stream

    opened = Path(source) if isinstance(source, str) else source
    stream = decode_stream(opened, chunk_seconds=CHUNK_SECONDS, raw=raw, limits=limits)

    def pieces() -> Iterator[Floats]:
        with stream:
            yield from stream

    return SoundChunks(pieces(), stream.source.seconds)


def _samples(values: NDArray[np.floating]) -> SoundChunks:
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.floating):
        raise AudioError(
            f"samples are {values.dtype} of shape {list(values.shape)}; give one row of floats at {SPEECH_RATE} Hz"
        )
    if not len(values):
        raise AudioError("the sound has no samples")
    floats = values.astype(np.float32, copy=False)
    if not np.isfinite(floats).all():
        raise AudioError("some samples are not finite numbers (NaN or infinity)")
    step = round(CHUNK_SECONDS * SPEECH_RATE)
    return SoundChunks(
        (floats[start : start + step] for start in range(0, len(floats), step)), len(floats) / SPEECH_RATE
    )
