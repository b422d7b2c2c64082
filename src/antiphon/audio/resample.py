"""Change of sample rate, in chunks or at once, with the same result."""

from __future__ import annotations

from typing import Any

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.dependencies import import_dependency


class Resampler:
    """Resampler of mono sound. The concatenated output does not depend on the chunks of the input."""

    def __init__(self, source_rate: int, rate: int) -> None:
        self.source_rate = source_rate
        self.rate = rate
        self._stream: Any = None
        if source_rate != rate:
            soxr = import_dependency("soxr", f"resampling from {source_rate} to {rate} Hz")
            self._stream = soxr.ResampleStream(source_rate, rate, 1, dtype="float32", quality="HQ")

    def push(self, samples: Floats) -> Floats:
        if self._stream is None:
            return samples
        out: Floats = self._stream.resample_chunk(np.ascontiguousarray(samples, np.float32))
        return out

    def finish(self) -> Floats:
        """Return the remaining samples. Nothing may be pushed after this call."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        out: Floats = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        return out


def resample(samples: Floats, source_rate: int, rate: int) -> Floats:
    resampler = Resampler(source_rate, rate)
    first = resampler.push(samples)
    last = resampler.finish()
    return np.concatenate([first, last]) if len(last) else first
