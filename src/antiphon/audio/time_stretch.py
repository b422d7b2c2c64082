"""Speech made faster or slower at the same pitch: overlapping pieces that continue each other (WSOLA)."""

from __future__ import annotations

import numpy as np

from antiphon.audio.samples import Floats

#: Seconds of a piece, half of which overlaps the next, and how far a piece may be moved to continue the one before.
PIECE_SECONDS, REACH_SECONDS = 0.03, 0.01
#: Pieces below this mean power are not moved: there is nothing to continue.
_SILENT_POWER = 1e-9


def time_stretched(samples: Floats, rate: int, speed: float) -> Floats:
    """Samples that last 1 / `speed` of the time, to the sample."""
    length = round(len(samples) / speed)
    hop = round(PIECE_SECONDS * rate / 2)
    if speed == 1.0 or len(samples) < 4 * hop:
        return samples
    reach, size = round(REACH_SECONDS * rate), 2 * hop
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)
    padded = np.pad(samples, (hop + reach, size + hop + reach))
    out = np.zeros(length + 2 * size, np.float32)
    start = reach  # of the piece in the padded samples
    for number in range(length // hop + 2):
        if number:
            wanted = min(round(number * hop * speed), len(samples)) + reach
            start = wanted + _shift(padded, start + hop, wanted, hop, reach)
        out[number * hop : number * hop + size] += window * padded[start : start + size]
    return out[hop : hop + length]


def _shift(padded: Floats, after: int, wanted: int, hop: int, reach: int) -> int:
    """Where, within reach of `wanted`, the samples are most like those at `after`, which would come next."""
    target = padded[after : after + hop]
    region = padded[wanted - reach : wanted + reach + hop]
    power = np.convolve(np.square(region, dtype=np.float64), np.ones(hop), "valid")
    if len(target) < hop or power.max() < _SILENT_POWER * hop or float(target @ target) < _SILENT_POWER * hop:
        return 0
    likeness = np.correlate(region, target, "valid") / np.sqrt(power + _SILENT_POWER * hop)
    return int(np.argmax(likeness)) - reach
