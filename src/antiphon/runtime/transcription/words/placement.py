"""Times at which words can have been said: in speech, within one span of their window, one after the other.

Alignment divides a window among its words without a gap, so that pauses, and seams where silence was left out, fall to
the words beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from antiphon.audio.segments import span_index
from antiphon.runtime.transcription.detection.voice_activity import VoiceFrames
from antiphon.runtime.transcription.words.timestamps import STATES_PER_SECOND, AlignedWord

#: Seconds above which a word is cut to one run of speech.
LONG_WORD = 0.5
#: Maximum seconds of a word.
LONGEST_WORD = 2.0
#: Minimum seconds of a word: one state of the encoder.
SHORTEST_WORD = 1 / STATES_PER_SECOND
#: Seconds added to a run of speech before its first voiced frame and after its last.
RUN_PADDING = 0.05


def placed_words(words: Sequence[AlignedWord], bounds: Sequence[float], voice: VoiceFrames | None) -> list[AlignedWord]:
    """Return the words of a window in order, each with a length above zero and inside one span.

    `bounds` are the ends of the spans in seconds of the window. Without `voice`, pauses stay in long words up to
    `LONGEST_WORD`.
    """
    ordered: list[AlignedWord] = []
    moment = bounds[0]
    for word in words:
        word = _cut(word, voice)
        start = max(moment, word.start)
        ordered.append(replace(word, start=start, end=max(start, word.end)))
        moment = ordered[-1].end
    out: list[AlignedWord] = []
    for index, group in groupby(ordered, lambda word: span_index(bounds, (word.start + word.end) / 2)):
        out += _fitted(list(group), bounds[index], bounds[index + 1])
    return out


def _cut(word: AlignedWord, voice: VoiceFrames | None) -> AlignedWord:
    """Cut a long word to the run of speech at, or nearest to, its strongest attention."""
    if word.end - word.start <= LONG_WORD:
        return word
    focus = (word.start + word.end) / 2 if word.focus is None else word.focus
    runs = [] if voice is None else voice.runs(word.start, word.end)
    start, end = word.start, word.end
    if runs:
        run = min(runs, key=lambda run: max(run[0] - focus, focus - run[1], 0.0))
        start, end = max(start, run[0] - RUN_PADDING), min(end, run[1] + RUN_PADDING)
    if end - start > LONGEST_WORD:
        start = min(max(start, focus - LONGEST_WORD / 2), end - LONGEST_WORD)
        end = start + LONGEST_WORD
    return replace(word, start=start, end=end)


def _fitted(words: list[AlignedWord], low: float, high: float) -> list[AlignedWord]:
    """Fit the words of one span, in order, between its ends; words without a length share a neighbour's time."""
    inside = [replace(word, start=min(max(word.start, low), high), end=min(max(word.end, low), high)) for word in words]
    inside = _shared(inside)
    shortest = min(SHORTEST_WORD, (high - low) / len(inside))
    limit = high
    for index in range(len(inside) - 1, -1, -1):  # each word leaves room for the later ones
        word = inside[index]
        end = min(word.end, limit)
        limit = min(word.start, limit - shortest)
        inside[index] = replace(word, start=limit, end=end)
    moment = low
    for index, word in enumerate(inside):
        start = max(word.start, moment)
        end = max(word.end, start + shortest)
        inside[index] = replace(word, start=start, end=end)
        moment = end
    return inside


def _shared(words: list[AlignedWord]) -> list[AlignedWord]:
    """Let words that are too short share the time of the next long word, or at the end of the last one."""
    out: list[AlignedWord] = []
    held: list[AlignedWord] = []
    for word in words:
        held.append(word)
        if word.end - word.start >= SHORTEST_WORD:
            out += _divided(held)
            held = []
    return [*out[:-1], *_divided([*out[-1:], *held])] if held else out


def _divided(words: list[AlignedWord]) -> list[AlignedWord]:
    """Divide the time of the longest word among all, in proportion to their letters."""
    longest = max(words, key=lambda word: word.end - word.start)
    letters = [max(1, len(word.text.strip())) for word in words]
    step = (longest.end - longest.start) / sum(letters)
    out, moment = [], longest.start
    for word, count in zip(words, letters, strict=True):
        out.append(replace(word, start=moment, end=moment + count * step))
        moment += count * step
    return out
