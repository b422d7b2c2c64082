"""Captions of what was spoken, from the times of its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from antiphon.runtime.calls.speech import SpeechChunk, TimedWord
from antiphon.runtime.transcription.captions import srt

MAX_CUE_SECONDS = 7.0
MAX_CUE_CHARACTERS = 84


def cues(chunks: Iterable[SpeechChunk]) -> Iterator[TimedWord]:
    """Yield a cue for every clause, or several for a clause that is too long to be read at once."""
    for chunk in chunks:
        groups = _groups(chunk.words)
        for group in groups:
            text = chunk.text if len(groups) == 1 else " ".join(word.text for word in group)
            yield TimedWord(text, group[0].start, group[-1].end)


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
    return srt(list(cues(chunks)))
