"""`Waterfall`: where the time of a turn went, from the end of speech to the first sound of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

#: Marks that each mark depends on; the latest of them is the one that delayed it.
WAITS_FOR: dict[str, tuple[str, ...]] = {
    "turn_decided": ("speech_ended",),
    "transcription_started": ("speech_ended",),
    "transcript_final": ("transcription_started", "speech_ended"),
    "answer_started": ("transcript_final", "requested"),
    "first_token": ("answer_started",),
    "first_clause": ("first_token",),
    "sound_made": ("first_clause",),
    "first_text": ("first_token", "turn_decided", "requested"),
    "first_sound": ("sound_made", "turn_decided", "transcript_final", "requested"),
}


@dataclass(frozen=True)
class Stage:
    """The wait before a mark, from the latest mark that it waited for, in seconds of the session's clock."""

    name: str
    waited_for: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Waterfall:
    """Marks of a turn, in seconds of the session's clock; None for a mark that was not reached.

    `first_text` and `first_sound` are when these went out. Output that was made before the turn was decided (a
    speculative answer) waits for the decision. Responses that the client asked for begin with `requested`.
    """

    speech_ended: float | None = None
    turn_decided: float | None = None
    transcription_started: float | None = None
    transcript_final: float | None = None
    requested: float | None = None
    answer_started: float | None = None
    first_token: float | None = None
    first_clause: float | None = None
    sound_made: float | None = None
    first_text: float | None = None
    first_sound: float | None = None

    @property
    def start(self) -> float | None:
        """Reference time of the other marks: the end of speech, otherwise the request."""
        return self.speech_ended if self.speech_ended is not None else self.requested

    def milliseconds(self) -> dict[str, int]:
        """Return each known mark in milliseconds from the start; negative for marks before it."""
        start = self.start
        if start is None:
            return {}
        return {name: round(1000 * (at - start)) for name, at in self._known().items()}

    def stages(self) -> list[Stage]:
        """Return the stage of each mark that waited for another."""
        known = self._known()
        made = []
        for mark, causes in WAITS_FOR.items():
            before = [name for name in causes if name in known]
            if mark in known and before:
                latest = max(before, key=known.__getitem__)
                made.append(Stage(mark, latest, min(known[latest], known[mark]), known[mark]))
        return made

    def critical_path(self) -> list[Stage]:
        """Return the stages from the start to the first sound (or text), each of which waited for the one before."""
        stages = {stage.name: stage for stage in self.stages()}
        mark = "first_sound" if "first_sound" in stages else "first_text"
        path: list[Stage] = []
        while mark in stages:
            path.append(stages[mark])
            mark = path[-1].waited_for
        return path[::-1]

    def _known(self) -> dict[str, float]:
        marks = ((mark.name, getattr(self, mark.name)) for mark in fields(self))
        return {name: at for name, at in marks if at is not None}


class Marks:
    """A waterfall that is being filled."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.waterfall = Waterfall()
        self._clock = clock

    @classmethod
    def of_request(cls, clock: Callable[[], float]) -> Marks:
        """Return the marks of a response that is requested now."""
        marks = cls(clock)
        marks.note("requested")
        return marks

    def note(self, mark: str) -> None:
        """Set the mark to this moment, unless it is set already."""
        if getattr(self.waterfall, mark) is None:
            self.set(mark, self._clock())

    def set(self, mark: str, at: float | None) -> None:
        self.waterfall = replace(self.waterfall, **{mark: at})
