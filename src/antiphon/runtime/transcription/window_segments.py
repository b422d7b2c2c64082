"""From a window's tokens and words to segments with times of the recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.runtime.calls.transcript import Segment, Word
from antiphon.runtime.transcription.window_decoding import Attempt, WindowJob
from antiphon.runtime.transcription.word_timestamps import AlignedWord, median_length, within_segment
from antiphon.text.tokenization.whisper_tokens import WhisperTokens
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer

#: A moment of a window → the moment of the recording; the flag says whether it ends something.
FileTime = Callable[[float, bool], float]


@dataclass(frozen=True)
class Stretch:
    """Tokens of text between two timestamps of a window, in its seconds. One that is not closed ends with it."""

    start: float
    end: float
    tokens: tuple[int, ...]
    is_closed: bool
    logprobs: tuple[float, ...] = ()

    def text_tokens(self, tokens: WhisperTokens) -> list[int]:
        return [token for token in self.tokens if token < tokens.end]


def stretches(attempt: Attempt, tokens: WhisperTokens, seconds: float) -> list[Stretch]:
    """The attempt cut at its timestamps; without any, one stretch over the whole window."""
    found: list[Stretch] = []
    start, first = 0.0, 0  # of the stretch that is open: its second, and the place of its first token

    def stretch(end: float, last: int, is_closed: bool) -> Stretch:
        return Stretch(start, end, attempt.tokens[first:last], is_closed, attempt.logprobs[first:last])

    for place, token in enumerate(attempt.tokens):
        if not tokens.is_timestamp(token):
            continue
        moment = min(tokens.seconds(token), seconds)
        if any(other < tokens.end for other in attempt.tokens[first:place]):
            found.append(stretch(max(moment, start), place + 1, True))
            first = place + 1
        else:
            first = place
        start = moment
    if any(token < tokens.end for token in attempt.tokens[first:]):
        found.append(stretch(seconds, len(attempt.tokens), False))
    return found


def segments_of(
    job: WindowJob, cut: list[Stretch], file_time: FileTime, seek: float, tokenizer: WhisperTokenizer
) -> list[Segment]:
    """Segments of the given stretches of a job that is done, with their words where it aligned them."""
    attempt = job.best
    median = median_length(job.words)
    segments, position = [], 0
    for stretch in cut:
        count = len(stretch.text_tokens(tokenizer.whisper))
        own, position = _words_of(job.words, position, count)
        own = within_segment(own, stretch.start, stretch.end, median)
        first, last = (own[0].start, own[-1].end) if own else (stretch.start, stretch.end)
        start, end = file_time(first, False), file_time(last, True)
        words = tuple(
            Word(word.text, file_time(word.start, False), file_time(word.end, True), word.probability) for word in own
        )
        segments.append(
            Segment(
                start=start,
                end=max(start, end),
                text=tokenizer.decode(stretch.text_tokens(tokenizer.whisper)),
                tokens=stretch.tokens,
                temperature=attempt.temperature,
                avg_logprob=attempt.avg_logprob,
                compression_ratio=attempt.compression_ratio,
                no_speech_prob=attempt.no_speech_prob,
                seek=seek,
                words=words,
                logprobs=stretch.logprobs,
            )
        )
    return segments


def whole_segment(job: WindowJob, start: float, tokens: tuple[int, ...], tokenizer: WhisperTokenizer) -> Segment:
    """A window of `start` seconds on as one segment, with the given tokens of the job's best attempt."""
    best = job.best
    words = tuple(Word(w.text, start + w.start, start + w.end, w.probability) for w in job.words)
    return Segment(
        start, start + job.seconds, tokenizer.decode(tokens), tokens, best.temperature, best.avg_logprob,
        best.compression_ratio, best.no_speech_prob, start, words,
    )  # fmt: skip


def _words_of(words: list[AlignedWord], position: int, count: int) -> tuple[list[AlignedWord], int]:
    """The words that begin within the next `count` tokens; and the position after them. `position` counts tokens."""
    own, at = [], 0
    for word in words:
        if position <= at < position + count:
            own.append(word)
        at += len(word.tokens)
    return own, position + count
