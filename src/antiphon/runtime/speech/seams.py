"""Joining the sounds of clauses without an audible seam: cut in silence, faded in silence, with a natural pause."""

from __future__ import annotations

import numpy as np

from antiphon.audio.samples import Floats

#: Seconds of silence kept before the first sound of a clause.
LEAD = 0.06
#: Seconds of silence kept before the first clause; less, since a listener waits for its sound.
FIRST_LEAD = 0.02
#: Seconds of pause after a clause, by what ends with it.
PHRASE_PAUSE, CLAUSE_PAUSE, SENTENCE_PAUSE, PARAGRAPH_PAUSE = 0.05, 0.14, 0.34, 0.6
FADE = 0.008
_WINDOW = 0.004
#: Peak amplitude below which a window is silent: relative to the clause's loudest window, but at most the second.
_RELATIVE_SILENCE, _ABSOLUTE_SILENCE = 10 ** (-44 / 20), 0.01


def trimmed(samples: Floats, rate: int, pause: float, lead: float = LEAD) -> tuple[Floats, int]:
    """Cut silence to `lead` seconds before the sound and `pause` seconds after it; return the sound and its offset.

    The offset is in samples of the input. The sound begins and ends at zero.
    """
    start, end = sounding(samples, rate)
    first = max(0, start - round(lead * rate))
    tail = round(pause * rate)
    last = min(len(samples), end + tail)
    out = samples[first:last].copy()
    fade = round(FADE * rate)
    _fade(out[: max(min(fade, start - first), rate // 1000)], rising=True)
    _fade(out[max(0, len(out) - max(min(fade, last - end), rate // 1000)) :], rising=False)
    missing = tail - (last - end)
    if missing > 0:
        out = np.concatenate([out, np.zeros(missing, np.float32)])
    return out, first


def sounding(samples: Floats, rate: int) -> tuple[int, int]:
    """Return the samples at which the first sound begins and the last one ends; the whole range if all is silent."""
    window = max(1, round(_WINDOW * rate))
    count = len(samples) // window
    if not count:
        return 0, len(samples)
    peaks = np.abs(samples[: count * window]).reshape(count, window).max(1)
    loud = np.flatnonzero(peaks > min(_ABSOLUTE_SILENCE, _RELATIVE_SILENCE * float(peaks.max())))
    if not len(loud):
        return 0, len(samples)
    return int(loud[0]) * window, min(len(samples), (int(loud[-1]) + 1) * window)


def is_silent(samples: Floats) -> bool:
    """Return whether there is nothing to hear: no samples, values that are not finite, or near zero throughout."""
    return not len(samples) or not np.isfinite(samples).all() or float(np.abs(samples).max()) < 1e-3


def _fade(edge: Floats, rising: bool) -> None:
    """Fade in from silence, or out to silence, in place."""
    ramp = np.sin(np.linspace(0.0, np.pi / 2, len(edge), dtype=np.float32)) ** 2
    edge *= ramp if rising else ramp[::-1]
