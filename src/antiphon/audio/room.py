"""`RoomLevel`: how loud a room is by itself, so that frames no louder than it are known to hold no speech.

A detector of voice activity goes on for 0.2 to 0.4 s after the last word; the level falls at once. Where the room is as
loud as the end of a word, or its noise varies, nothing is known, and the detector alone counts.
"""

from __future__ import annotations

import statistics
from collections import deque

import numpy as np

from antiphon.audio.samples import Floats

#: A frame is the room's if the detector gives speech less than this probability.
ROOM_PROBABILITY = 0.15
#: Frames that the room's level is the median of, at least and at most.
MIN_FRAMES, MAX_FRAMES = 12, 64
#: Decibels over the room's level up to which a frame is the room's alone.
MARGIN = 4.0
#: Speech must have been so many decibels louder than that, and is taken to be forgotten by so many in each frame.
CONTRAST, DECAY = 14.0, 0.2


class RoomLevel:
    """Takes one frame after another, with the probability of speech in it."""

    def __init__(self) -> None:
        self._levels: deque[float] = deque(maxlen=MAX_FRAMES)
        self._loudest = -120.0

    def voice(self, frame: Floats, probability: float) -> float:
        """The probability of speech in a frame: 0 where there is nothing but the room, else what it was."""
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
