"""Change of speaking rate at the same pitch, by overlapping segments that continue each other (WSOLA)."""

from __future__ import annotations

import numpy as np

from antiphon.audio.samples import Floats

#: Seconds of a segment, half of which overlaps the next, and seconds that it may be shifted to continue the last.
PIECE_SECONDS, REACH_SECONDS = 0.03, 0.01
#: Mean power below which a segment counts as silence and is not shifted.
_SILENT_POWER = 1e-9


def time_stretched(samples: Floats, rate: int, speed: float) -> Floats:
    """Return round(len(samples) / speed) samples of the sound at another pace; very short sound is unchanged."""
    length = round(len(samples) / speed)
    hop = round(PIECE_SECONDS * rate / 2)
    if speed == 1.0 or len(samples) < 4 * hop:
        return samples
    reach, size = round(REACH_SECONDS * rate), 2 * hop
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)
    padded = np.pad(samples, (hop + reach, size + hop + reach))
    out = np.zeros(length + 2 * size, np.float32)
    start = reach  # index of the segment in the padded samples
    for number in range(length // hop + 2):
        if number:
            wanted = min(round(number * hop * speed), len(samples)) + reach
            start = wanted + _shift(padded, start + hop, wanted, hop, reach)
        out[number * hop : number * hop + size] += window * padded[start : start + size]
    return out[hop : hop + length]


def _shift(padded: Floats, after: int, wanted: int, hop: int, reach: int) -> int:
    """Return the shift within `reach` of `wanted` to the samples most like those at `after`, which would come next."""
    target = padded[after : after + hop]
    region = padded[wanted - reach : wanted + reach + hop]
    power = np.convolve(np.square(region, dtype=np.float64), np.ones(hop), "valid")
    if len(target) < hop or power.max() < _SILENT_POWER * hop or float(target @ target) < _SILENT_POWER * hop:
        return 0
    likeness = np.correlate(region, target, "valid") / np.sqrt(power + _SILENT_POWER * hop)
    return int(np.argmax(likeness)) - reach
