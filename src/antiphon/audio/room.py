"""`RoomLevel`: the level of a room's own noise, so that frames no louder than it are known to contain no speech.

A voice activity detector reports speech for 0.2 to 0.4 s after the last word, while the level falls at once. Where the
room is as loud as the end of a word, or its noise varies, only the detector counts.
"""

from __future__ import annotations

import statistics
from collections import deque

import numpy as np

from antiphon.audio.samples import Floats

#: Speech probability below which a frame updates the room's level.
ROOM_PROBABILITY = 0.15
#: Minimum and maximum frames whose median is the room's level.
MIN_FRAMES, MAX_FRAMES = 12, 64
#: Decibels above the room's level up to which a frame contains only the room.
MARGIN = 4.0
#: Speech margin in dB above that limit, and its decay per frame.
CONTRAST, DECAY = 14.0, 0.2


class RoomLevel:
    """Estimator of the room's level from successive frames and their probability of speech."""

    def __init__(self) -> None:
        self._levels: deque[float] = deque(maxlen=MAX_FRAMES)
        self._loudest = -120.0

    def voice(self, frame: Floats, probability: float) -> float:
        """Return the probability of speech in a frame: 0 if it contains only the room, else `probability`."""
        return 0.0 if self._is_alone(frame, probability) else probability

    def _is_alone(self, frame: Floats, probability: float) -> bool:
        level = 10.0 * float(np.log10(np.mean(np.square(frame, dtype=np.float64)) + 1e-12)) if len(frame) else -120.0
        self._loudest = max(level, self._loudest - DECAY)
        if probability < ROOM_PROBABILITY:
            self._levels.append(level)
        if len(self._levels) < MIN_FRAMES:
            return False
        limit = statistics.median(self._levels) + MARGIN
        return level <= limit <= self._loudest - CONTRAST
