"""Captions of what was spoken, from the times of its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from antiphon.runtime.calls.speech import SpeechChunk, TimedWord

MAX_CUE_SECONDS = 7.0
MAX_CUE_CHARACTERS = 84


@dataclass(frozen=True)
class Cue:
    start: float
    end: float
    text: str


def cues(chunks: Iterable[SpeechChunk]) -> Iterator[Cue]:
    """A cue for every clause, or several where one is too long to be read at once."""
    for chunk in chunks:
        groups = _groups(chunk.words)
        for group in groups:
            text = chunk.text if len(groups) == 1 else " ".join(word.text for word in group)
            yield Cue(group[0].start, group[-1].end, " ".join(text.split()))


def _groups(words: tuple[TimedWord, ...]) -> list[list[TimedWord]]:
    groups: list[list[TimedWord]] = []
    length = 0
    for word in words:
        full = groups and (
            length + 1 + len(word.text) > MAX_CUE_CHARACTERS or word.end - groups[-1][0].start > MAX_CUE_SECONDS
        )
        if not groups or full:
            groups.append([])
            length = -1
        groups[-1].append(word)
        length += 1 + len(word.text)
    return groups


def to_srt(chunks: Iterable[SpeechChunk]) -> str:
    """SubRip: numbered cues with a comma before the milliseconds."""
    return "\n".join(
        f"{number}\n{_clock(cue.start)} --> {_clock(cue.end)}\n{cue.text}\n"
        for number, cue in enumerate(cues(chunks), start=1)
    )


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d},{rest % 1000:03d}"
