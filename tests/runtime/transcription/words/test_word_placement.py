"""Words are placed in speech, in one span each, in order, with a length."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from antiphon.audio.segments import SpeechSpan, Window
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.detection.voice_activity import VoiceFrames
from antiphon.runtime.transcription.window.decoding import Attempt, Recogniser, WindowJob
from antiphon.runtime.transcription.window.segments import WindowTimeline, segments_of, stretches
from antiphon.runtime.transcription.words.placement import LONGEST_WORD, placed_words
from antiphon.runtime.transcription.words.timestamps import AlignedWord
from support.models.tiny_whisper import tiny_whisper

FRAME = 0.032


def word(text: str, start: float, end: float, focus: float | None = None) -> AlignedWord:
    return AlignedWord(text, (1,), start, end, 1.0, focus)


def voice(seconds: float, *runs: tuple[float, float]) -> VoiceFrames:
    values = np.zeros(round(seconds / FRAME), np.float32)
    for start, end in runs:
        values[round(start / FRAME) : round(end / FRAME)] = 0.9
    return VoiceFrames(values, FRAME)


def times(words: list[AlignedWord]) -> list[tuple[float, float]]:
    return [(word.start, word.end) for word in words]


@pytest.mark.parametrize("seed", range(40))
def test_any_words_are_in_order_in_one_span_each(seed: int) -> None:
    source = np.random.default_rng(seed)
    bounds = np.cumsum([0.0, *source.uniform(0.05, 9, source.integers(1, 5))]).tolist()
    count = int(source.integers(1, 60))
    starts = np.sort(np.round(source.uniform(0, bounds[-1], count), 2))
    if seed % 2:  # some go back, and some reach far
        starts += source.normal(0, 0.5, count)
    lengths = source.choice([0.0, 0.1, 0.4, 3.0, 12.0], count)
    words = [word("w" * int(source.integers(1, 9)), s, s + n) for s, n in zip(starts, lengths, strict=True)]
    heard = voice(bounds[-1], *((t, t + 0.4) for t in np.arange(0, bounds[-1], 1.1))) if seed % 3 else None
    placed = placed_words(words, bounds, heard)
    assert [word.text for word in placed] == [word.text for word in words]
    assert all(after.start >= before.end - 1e-9 for before, after in pairwise(placed))
    assert all(0 < word.end - word.start <= LONGEST_WORD + 1e-9 for word in placed)
    for one in placed:
        assert any(low - 1e-9 <= one.start and one.end <= high + 1e-9 for low, high in pairwise(bounds))


def test_a_word_over_a_seam_is_in_the_span_of_its_middle() -> None:
    placed = placed_words(
        [word(" one", 3.0, 4.2), word(" two", 4.2, 5.5), word(" so", 5.5, 6.0)], (0.0, 5.0, 9.0), None
    )
    assert times(placed) == [(3.0, 4.2), (4.2, 5.0), (5.5, 6.0)]
    placed = placed_words([word(" one", 3.0, 4.2), word(" two", 4.8, 5.5)], (0.0, 5.0, 9.0), None)
    assert times(placed)[1] == (5.0, 5.5)


def test_a_long_word_is_cut_to_the_speech_in_it() -> None:
    heard = voice(10.0, (0.96, 2.016), (4.0, 5.12))
    (first,) = placed_words([word(" And", 2.2, 4.5)], (0.0, 10.0), heard)
    assert first.start == pytest.approx(4.0, abs=0.1) and first.end == 4.5
    (last,) = placed_words([word(" done.", 1.6, 4.0)], (0.0, 10.0), heard)
    assert last.start == 1.6 and last.end == pytest.approx(2.016, abs=0.1)
    assert {type(time) for placed in (first, last) for time in (placed.start, placed.end)} == {float}  # as JSON


def test_of_two_runs_of_speech_the_one_with_the_attention_is_taken() -> None:
    heard = voice(10.0, (0.96, 2.016), (4.0, 5.12))
    for focus, start in ((1.9, 1.7), (4.1, 3.95), (2.5, 1.7), (3.6, 3.95)):
        (found,) = placed_words([word(" or", 1.7, 4.3, focus)], (0.0, 10.0), heard)
        assert found.start == pytest.approx(start, abs=0.05)


def test_words_without_a_length_share_that_of_the_next() -> None:
    placed = placed_words([word(" And", 7.2, 7.2), word(" so", 7.2, 7.7), word(" on", 7.7, 7.7)], (0.0, 9.0), None)
    assert times(placed)[0] == pytest.approx((7.2, 7.5))
    assert times(placed)[2][1] == pytest.approx(7.7)
    assert all(word.end - word.start > 0.05 for word in placed)


def job_of(tokens: list[int], aligned: list[AlignedWord], seconds: float, **options: bool) -> WindowJob:
    recogniser = Recogniser.of(tiny_whisper())
    job = WindowJob(recogniser, np.zeros(round(seconds * 16_000), np.float32), TranscriptionOptions(**options), "en")
    logprobs = tuple(-float(index) for index in range(len(tokens)))
    job.attempts.append(Attempt(tuple(tokens), "", 0.0, -0.1, 1.0, 0.0, "en", 1.0, True, seconds, logprobs))
    job.words = aligned
    return job


@pytest.mark.parametrize("asks_for_words", [False, True])
def test_a_stretch_over_a_seam_becomes_a_segment_for_each_span(asks_for_words: bool) -> None:
    """Thirty seconds were left out after four; the model's own times go from 2 to 8."""
    stamp = Recogniser.of(tiny_whisper()).tokens.first_timestamp
    tokens = [stamp + 100, 40, 41, 42, 43, stamp + 400]
    words = [
        AlignedWord("a", (40,), 2.0, 3.0, 1.0),
        AlignedWord("b", (41, 42), 3.6, 4.8, 1.0),
        AlignedWord("c", (43,), 4.8, 6.0, 1.0),
    ]
    job = job_of(tokens, words, 10.0, words=asks_for_words)
    window = Window((SpeechSpan(10.0, 14.0), SpeechSpan(44.0, 50.0)))
    cut = stretches(job.best, job.recogniser.tokens, 10.0)
    assert cut[0].crosses(window.bounds)
    found = segments_of(job, cut, WindowTimeline(window), job.recogniser.tokenizer)
    assert [(segment.start, segment.end) for segment in found] == [(12.0, 13.0), (44.0, 46.0)]
    assert [segment.tokens for segment in found] == [tuple(tokens[:2]), tuple(tokens[2:])]
    assert [segment.logprobs for segment in found] == [(-0.0, -1.0), (-2.0, -3.0, -4.0, -5.0)]
    decode = job.recogniser.tokenizer.decode
    assert "".join(segment.text for segment in found) == decode([40, 41, 42, 43])
    spoken = [(word.start, word.end) for segment in found for word in segment.words]
    assert spoken == (
        [(12.0, 13.0), (44.0, pytest.approx(44.8)), (pytest.approx(44.8), 46.0)] if asks_for_words else []
    )


def test_words_of_a_stretch_that_is_left_out_do_not_move_to_the_next() -> None:
    stamp = Recogniser.of(tiny_whisper()).tokens.first_timestamp
    tokens = [stamp, 40, stamp + 100, stamp + 200, 41, stamp + 300]
    words = [AlignedWord("a", (40,), 0.5, 1.5, 1.0), AlignedWord("b", (41,), 4.5, 5.5, 1.0)]
    job = job_of(tokens, words, 8.0, words=True)
    cut = stretches(job.best, job.recogniser.tokens, 8.0)
    (found,) = segments_of(job, cut[1:], WindowTimeline(Window((SpeechSpan(0.0, 8.0),))), job.recogniser.tokenizer)
    assert [word.text for word in found.words] == ["b"]


def test_what_is_transcribed_again_begins_after_the_words_that_are_kept() -> None:
    stamp = Recogniser.of(tiny_whisper()).tokens.first_timestamp
    words = [AlignedWord("a", (40,), 0.5, 1.5, 1.0), AlignedWord("b", (41,), 1.5, 4.5, 1.0)]
    job = job_of([stamp, 40, 41, stamp + 150], words, 8.0, words=True)
    cut = stretches(job.best, job.recogniser.tokens, 8.0)
    (found,) = segments_of(
        job, cut, WindowTimeline(Window((SpeechSpan(0.0, 8.0),)), limit=3.0), job.recogniser.tokenizer
    )
    assert found.end <= 3.0 and all(word.end <= 3.0 for word in found.words)
