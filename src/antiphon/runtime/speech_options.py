"""`SpeechOptions`: how a text is to be spoken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.engine.request import Priority
from antiphon.errors import InvalidRequestError

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_OVERRIDES = 10_000


@dataclass(frozen=True)
class SpeechOptions:
    """Checked on creation; a wrong value is an `InvalidRequestError` with the value in it.

    `voice` is a name or a mixture (`af_bella:0.7+af_sky:0.3`), None for the model's default. `language` is the one the
    text is in, None for the voice's own. `pronunciations` are phonemes by word. A `paced` synthesis keeps only so far
    ahead of somebody who listens as it comes, and cuts sentences that would come too late for them; others are made as
    fast as they can be. `timeout` is for the whole.
    """

    voice: str | None = None
    speed: float = 1.0
    language: str | None = None
    pronunciations: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    priority: Priority = Priority.NORMAL
    paced: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed) and MIN_SPEED <= self.speed <= MAX_SPEED):
            raise InvalidRequestError(f"speed is {self.speed}; it must be from {MIN_SPEED} to {MAX_SPEED}")
        if len(self.pronunciations) > MAX_OVERRIDES:
            raise InvalidRequestError(f"{len(self.pronunciations)} pronunciations were given; {MAX_OVERRIDES} may be")
        if not 0 <= self.seed < 1 << 63:
            raise InvalidRequestError(f"seed is {self.seed}; it must be from 0 to 2^63 - 1")
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidRequestError(f"timeout is {self.timeout}; it must be more than 0 seconds")
