"""`Player`: a listener that plays sound in real time as it arrives."""

from __future__ import annotations

import numpy as np

from antiphon.audio.samples import Floats
from conversation.protocol import GAP_SECONDS, SOUND_LEVEL, WIRE_RATE


class Player:
    """Listener that plays sound at once, and waits when it has none. Times are seconds of a single clock."""

    def __init__(self) -> None:
        #: Time at which the first sample above the sound level is played.
        self.first_sound: float | None = None
        #: Seconds without sound to play, within an answer.
        self.gaps: list[float] = []
        self._ends_at: float | None = None

    def add(self, samples: Floats, at: float) -> None:
        start = at
        if self._ends_at is not None:
            late = at - self._ends_at
            if late > GAP_SECONDS:
                self.gaps.append(late)
            start = max(at, self._ends_at)
        if self.first_sound is None:
            loud = np.nonzero(np.abs(samples) >= SOUND_LEVEL)[0]
            if len(loud):
                self.first_sound = start + float(loud[0]) / WIRE_RATE
        self._ends_at = start + len(samples) / WIRE_RATE

    def left(self, at: float) -> float:
        """Return the seconds of sound still to be played."""
        return 0.0 if self._ends_at is None else max(0.0, self._ends_at - at)
