"""`SpeechOptions`: how a text is to be spoken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.argument_types import check_fields
from antiphon.engine.request import Priority
from antiphon.errors import InvalidRequestError, check_values

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_OVERRIDES = 10_000


@dataclass(frozen=True)
class SpeechOptions:
    """Options of `speak`. An invalid value raises `InvalidRequestError` with the value.

    `voice` is a name or a mixture (`af_bella:0.7+af_sky:0.3`), None for the model's default. `language` is the language
    of the text, None for the voice's own. `pronunciations` maps words to phonemes. `paced` synthesises only some
    seconds ahead of playback and splits sentences that would come too late; otherwise synthesis is as fast as possible.
    `timeout` is in seconds, for the whole text.
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
        check_fields(self)
        check_values(
            (MIN_SPEED <= self.speed <= MAX_SPEED, "speed", self.speed, f"from {MIN_SPEED} to {MAX_SPEED}"),
            (0 <= self.seed < 1 << 63, "seed", self.seed, "from 0 to 2^63 - 1"),
            (self.timeout is None or self.timeout > 0, "timeout", self.timeout, "more than 0 seconds"),
        )
        if len(self.pronunciations) > MAX_OVERRIDES:
            raise InvalidRequestError(f"{len(self.pronunciations)} pronunciations were given; {MAX_OVERRIDES} may be")
