"""Joining the sounds of clauses without an audible seam: cut in silence, faded in silence, with a natural pause."""

from __future__ import annotations

import numpy as np

from antiphon.audio.samples import Floats

#: Seconds of silence kept before the first sound of a clause and after the last one.
LEAD = 0.06
#: The same before the first clause: a listener waits for its sound.
FIRST_LEAD = 0.02
#: Pauses after a clause by what ends with it.
PHRASE_PAUSE, CLAUSE_PAUSE, SENTENCE_PAUSE, PARAGRAPH_PAUSE = 0.05, 0.14, 0.34, 0.6
FADE = 0.008
_WINDOW = 0.004
#: Silence is this far below the loudest window of the clause, and never louder than this.
_RELATIVE_SILENCE, _ABSOLUTE_SILENCE = 10 ** (-44 / 20), 0.01


def trimmed(samples: Floats, rate: int, pause: float, lead: float = LEAD) -> tuple[Floats, int]:
    """Return the sound with its silence cut to a short lead and to the pause after it, and the offset of its beginning.

    It begins and ends at zero.
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
    """Where the first sound begins and the last one ends; the whole if there is none."""
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
    """Whether there is nothing to hear."""
    return not len(samples) or not np.isfinite(samples).all() or float(np.abs(samples).max()) < 1e-3


def _fade(edge: Floats, rising: bool) -> None:
    """From silence, or to it, in place."""
    ramp = np.sin(np.linspace(0.0, np.pi / 2, len(edge), dtype=np.float32)) ** 2
    edge *= ramp if rising else ramp[::-1]
