"""`TranscriptionOptions`: the options of a transcription."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.argument_types import as_tuple, check_fields
from antiphon.engine.request import Priority
from antiphon.errors import check_values

#: Temperatures, tried in order until a window's transcript is neither repetitive nor improbable.
DEFAULT_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MAX_BEAMS = 16
#: Seconds of new sound between two hypotheses of a live session.
DEFAULT_INTERVAL = 1.0


@dataclass(frozen=True)
class TranscriptionOptions:
    """Options of `transcribe` and `listen`. An invalid value raises `InvalidRequestError` with the value.

    `language` is detected if it is None. `prompt` is context: names, spelling, style. `words` requests the times of
    words, `timestamps` the times of segments inside a window (otherwise a window is one segment). `beams` above 1
    searches with that many hypotheses at temperature 0. `sequential` transcribes window by window, using the previous
    text as context, instead of all windows at once. `voice_activity` skips sound without speech; without it windows are
    sequential, since nothing shows where to cut. A window that is repetitive or improbable is decoded again at the next
    of `temperatures`.
    """

    language: str | None = None
    translate: bool = False
    prompt: str = ""
    words: bool = False
    timestamps: bool = True
    beams: int = 1
    best_of: int = 5
    sequential: bool = False
    voice_activity: bool = True
    temperatures: tuple[float, ...] = DEFAULT_TEMPERATURES
    compression_ratio_limit: float = 2.4
    logprob_limit: float = -1.0
    no_speech_limit: float = 0.6
    priority: Priority = Priority.NORMAL
    timeout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperatures", as_tuple(self.temperatures))
        check_fields(self)
        check_values(
            (1 <= self.beams <= MAX_BEAMS, "beams", self.beams, f"1 to {MAX_BEAMS}"),
            (1 <= self.best_of <= MAX_BEAMS, "best_of", self.best_of, f"1 to {MAX_BEAMS}"),
            (bool(self.temperatures), "temperatures", self.temperatures, "at least one temperature"),
            (all(0 <= t <= 2 for t in self.temperatures), "temperatures", self.temperatures, "between 0 and 2"),
            (0 <= self.no_speech_limit <= 1, "no_speech_limit", self.no_speech_limit, "between 0 and 1"),
            (self.compression_ratio_limit > 0, "compression_ratio_limit", self.compression_ratio_limit, "above 0"),
            (self.timeout is None or self.timeout > 0, "timeout", self.timeout, "above 0 seconds"),
        )
