"""From a window's tokens and words to segments with times of the recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from antiphon.audio.segments import Window, span_index
from antiphon.runtime.calls.transcript import Segment, Word
from antiphon.runtime.transcription.detection.voice_activity import VoiceFrames
from antiphon.runtime.transcription.window.decoding import Attempt, WindowJob
from antiphon.runtime.transcription.words.placement import SHORTEST_WORD, placed_words
from antiphon.runtime.transcription.words.timestamps import AlignedWord, median_length, within_segment
from antiphon.text.tokenization.whisper_tokens import WhisperTokens
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer


@dataclass(frozen=True)
class Stretch:
    """Tokens of text between two timestamps of a window, in its seconds.

    A stretch without a closing timestamp ends with the window.
    """

    start: float
    end: float
    tokens: tuple[int, ...]
    is_closed: bool
    logprobs: tuple[float, ...] = ()
    #: Number of text tokens of the window before the stretch.
    text_position: int = 0

    def crosses(self, bounds: Sequence[float]) -> bool:
        """Return whether the stretch lies in more than one span of its window."""
        return any(self.start < seam < self.end for seam in bounds[1:-1])

    def text_tokens(self, tokens: WhisperTokens) -> list[int]:
        return [token for token in self.tokens if token < tokens.end]


def stretches(attempt: Attempt, tokens: WhisperTokens, seconds: float) -> list[Stretch]:
    """Cut the attempt at its timestamps; without any, return one stretch over the whole window."""
    found: list[Stretch] = []
    start, first = 0.0, 0  # start in seconds, and index of the first token, of the open stretch

    def stretch(end: float, last: int, is_closed: bool) -> Stretch:
        before = sum(token < tokens.end for token in attempt.tokens[:first])
        return Stretch(start, end, attempt.tokens[first:last], is_closed, attempt.logprobs[first:last], before)

    for index, token in enumerate(attempt.tokens):
        if not tokens.is_timestamp(token):
            continue
        moment = min(tokens.seconds(token), seconds)
        if any(other < tokens.end for other in attempt.tokens[first:index]):
            found.append(stretch(max(moment, start), index + 1, True))
            first = index + 1
        else:
            first = index
        start = moment
    if any(token < tokens.end for token in attempt.tokens[first:]):
        found.append(stretch(seconds, len(attempt.tokens), False))
    return found


@dataclass(frozen=True)
class WindowTimeline:
    """A window's position in the recording, its voice, and the part of its transcript that is used."""

    window: Window
    voice: VoiceFrames | None = None
    #: Seconds of the window after which its sound is transcribed again.
    limit: float | None = None

    @property
    def bounds(self) -> tuple[float, ...]:
        bounds = self.window.bounds
        if self.limit is None:
            return bounds
        return (*(bound for bound in bounds if bound < self.limit), min(self.limit, bounds[-1]))


def segments_of(
    job: WindowJob, cut: list[Stretch], timeline: WindowTimeline, tokenizer: WhisperTokenizer
) -> list[Segment]:
    """Return segments of the given stretches of a finished job, in order, with their words if requested.

    A stretch over a seam of the window becomes a segment for each span.
    """
    bounds = timeline.bounds
    median = median_length(job.words)
    own = [
        within_segment(
            _words_of(job.words, stretch.text_position, len(stretch.text_tokens(tokenizer.whisper))),
            stretch.start,
            stretch.end,
            median,
        )
        for stretch in cut
    ]
    placed = iter(placed_words([word for words in own for word in words], bounds, timeline.voice))
    segments: list[Segment] = []
    moment = bounds[0]
    for stretch, aligned in zip(cut, own, strict=True):
        words = [next(placed) for _ in aligned]
        for part, spoken in _parts(stretch, words, bounds, tokenizer.whisper):
            start, end = part.start, part.end
            if spoken and (job.options.words or part is not stretch):
                start, end = spoken[0].start, spoken[-1].end
            start = min(max(start, moment), bounds[-1])
            end = min(max(end, start + SHORTEST_WORD), bounds[-1])
            moment = end
            segments.append(_segment(job, part, start, end, spoken, timeline.window, tokenizer))
    return segments


def _parts(
    stretch: Stretch, words: list[AlignedWord], bounds: Sequence[float], tokens: WhisperTokens
) -> list[tuple[Stretch, list[AlignedWord]]]:
    """Cut the stretch where its words pass from one span to the next; return each part with its words."""
    spans = [list(span) for _, span in groupby(words, lambda word: span_index(bounds, (word.start + word.end) / 2))]
    if len(spans) < 2:
        return [(stretch, words)]
    parts: list[tuple[Stretch, list[AlignedWord]]] = []
    first = 0
    for index, span in enumerate(spans):
        is_last = index == len(spans) - 1
        last = len(stretch.tokens) if is_last else _after_text(stretch, first, span, tokens)
        part = replace(
            stretch,
            start=span[0].start,
            end=span[-1].end,
            tokens=stretch.tokens[first:last],
            logprobs=stretch.logprobs[first:last],
            is_closed=stretch.is_closed or not is_last,
        )
        parts.append((part, span))
        first = last
    return parts


def _after_text(stretch: Stretch, first: int, words: list[AlignedWord], tokens: WhisperTokens) -> int:
    """Return the index after the last token of the words, which begin at or after the token `first`."""
    left = sum(len(word.tokens) for word in words)
    for index, token in enumerate(stretch.tokens[first:], first):
        left -= token < tokens.end
        if not left:
            return index + 1
    return len(stretch.tokens)


def _segment(
    job: WindowJob,
    stretch: Stretch,
    start: float,
    end: float,
    words: list[AlignedWord],
    window: Window,
    tokenizer: WhisperTokenizer,
) -> Segment:
    attempt = job.best
    first, last = window.file_times(start, end)
    timed = tuple(Word(word.text, *window.file_times(word.start, word.end), word.probability) for word in words)
    return Segment(
        start=first,
        end=last,
        text=tokenizer.decode(stretch.text_tokens(tokenizer.whisper)),
        tokens=stretch.tokens,
        temperature=attempt.temperature,
        avg_logprob=attempt.avg_logprob,
        compression_ratio=attempt.compression_ratio,
        no_speech_prob=attempt.no_speech_prob,
        seek=window.start,
        words=timed if job.options.words else (),
        logprobs=stretch.logprobs,
    )


def whole_segment(
    job: WindowJob, start: float, tokens: tuple[int, ...], voice: VoiceFrames | None, tokenizer: WhisperTokenizer
) -> Segment:
    """Return a window that begins at `start` seconds as one segment, with the given tokens of the best attempt."""
    best = job.best
    placed = placed_words(job.words, (0.0, job.seconds), voice)
    words = tuple(Word(w.text, start + w.start, start + w.end, w.probability) for w in placed)
    return Segment(
        start, start + job.seconds, tokenizer.decode(tokens), tokens, best.temperature, best.avg_logprob,
        best.compression_ratio, best.no_speech_prob, start, words,
    )  # fmt: skip


def _words_of(words: list[AlignedWord], position: int, count: int) -> list[AlignedWord]:
    """Return the words that begin within `count` text tokens from `position` on."""
    own, at = [], 0
    for word in words:
        if position <= at < position + count:
            own.append(word)
        at += len(word.tokens)
    return own
