"""Speech segments against Silero's own rules, and windows against their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from silero_vad.utils_vad import get_speech_timestamps_from_probs

from antiphon.audio.segments import (
    SegmentOptions,
    SpeechSpan,
    SpeechTracker,
    Window,
    cut_windows,
    speech_segments,
)
from antiphon.errors import AudioError

FRAME = 0.032


def random_probabilities(seed: int, count: int = 2000) -> np.ndarray:
    """Speech that comes and goes: a slow walk through a logistic function."""
    source = np.random.default_rng(seed)
    walk = np.convolve(source.standard_normal(count + 40), np.ones(40) / 5, "valid")[:count]
    return (1 / (1 + np.exp(-2 * walk - source.standard_normal(count)))).astype(np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_segments_equal_silero(seed: int) -> None:
    probabilities = random_probabilities(seed)
    samples = len(probabilities) * 512 - 100 * (seed % 3)
    options = SegmentOptions(min_silence=0.1, padding=0.03)
    found = speech_segments(probabilities, FRAME, samples / 16_000, options)
    theirs = get_speech_timestamps_from_probs(probabilities.tolist(), audio_length_samples=samples)
    assert [(round(s.start * 16_000), round(s.end * 16_000)) for s in found] == [(t["start"], t["end"]) for t in theirs]


@pytest.mark.parametrize("seed", range(5))
def test_the_tracker_finds_the_same_in_pieces(seed: int) -> None:
    probabilities = random_probabilities(seed)
    whole, pieces = SpeechTracker(FRAME), SpeechTracker(FRAME)
    expected = whole.push(probabilities) + whole.finish()
    found: list[SpeechSpan] = []
    for part in np.array_split(probabilities, 97):
        found += pieces.push(part)
        assert pieces.speaking_since is not None or pieces.quiet_since is None
    assert found + pieces.finish() == expected


@pytest.mark.parametrize("limit", [2.0, 5.0, 30.0])
def test_long_speech_is_cut_where_it_is_quietest(limit: float) -> None:
    probabilities = np.full(4000, 0.9, np.float32)
    probabilities[25::50] = 0.45  # dips every 1.6 s that do not end speech
    options = SegmentOptions(max_speech=limit, padding=0.2)
    segments = speech_segments(probabilities, FRAME, 128.0, options)
    assert max(segment.seconds for segment in segments) <= limit + 1e-6
    assert segments[0].start == 0.0 and segments[-1].end == 128.0
    for before, after in pairwise(segments):
        assert before.end == after.start  # nothing of a sentence is lost
        frame = round(after.start / FRAME)
        if limit >= 5.0:
            assert min(abs(frame - dip) for dip in range(25, 4000, 50)) <= 1


def test_no_speech_and_short_speech() -> None:
    assert speech_segments(np.zeros(100, np.float32), FRAME, 3.2) == []
    assert speech_segments(np.zeros(0, np.float32), FRAME, 0.0) == []
    blip = np.zeros(100, np.float32)
    blip[50:55] = 0.9
    assert speech_segments(blip, FRAME, 3.2) == []


@pytest.mark.parametrize("seed", range(10))
def test_windows_hold_every_segment_once_in_order(seed: int) -> None:
    source = np.random.default_rng(seed)
    segments, moment = [], 0.0
    for _ in range(100):
        moment += float(source.exponential(0.7)) + 0.01
        length = float(source.uniform(0.3, 12))
        segments.append(SpeechSpan(moment, moment + length))
        moment += length
    windows = cut_windows(segments, 30.0, max_gap=1.0)
    assert max(window.seconds for window in windows) <= 30.0 + 1e-6
    spans = [span for window in windows for span in window.spans]
    assert all(a.end < b.start for a, b in pairwise(spans))
    for segment in segments:
        assert sum(span.start <= segment.start and segment.end <= span.end for span in spans) == 1
    for window in windows:
        assert all(b.start - a.end > 1.0 for a, b in pairwise(window.spans))
    covered = sum(segment.seconds for segment in segments)
    assert len(windows) <= 1.35 * covered / 30 + 1


def test_a_window_ends_at_the_longest_silence_near_its_end() -> None:
    spans = [(0, 10), (10.1, 20), (20.1, 25), (25.9, 28), (28.2, 29), (29.3, 40)]
    segments = [SpeechSpan(start, end) for start, end in spans]
    windows = cut_windows(segments, 30.0)
    assert [(window.start, window.end) for window in windows] == [(0, 25), (25.9, 40)]


def test_window_time_maps_to_file_time() -> None:
    window = Window((SpeechSpan(10.0, 14.0), SpeechSpan(20.0, 21.0), SpeechSpan(50.0, 55.0)))
    assert window.seconds == 10.0 and window.bounds == (0.0, 4.0, 5.0, 10.0)
    assert window.file_times(0.0, 3.5) == (10.0, 13.5)
    assert window.file_times(3.0, 4.0) == (13.0, 14.0)
    assert window.file_times(4.0, 4.5) == (20.0, 20.5)
    assert window.file_times(7.0, 31.0) == (52.0, 55.0)
    assert window.file_times(-1.0, 1.0) == (10.0, 11.0)


def test_nothing_stretches_over_what_was_left_out() -> None:
    """A word that begins just before a seam, where an aligner puts the silence, is in the span of its middle."""
    window = Window((SpeechSpan(0.0, 14.0), SpeechSpan(44.0, 50.0)))
    assert window.file_times(13.9, 14.6) == (44.0, 44.6)
    assert window.file_times(13.2, 14.2) == (13.2, 14.0)


def test_a_window_takes_its_sound() -> None:
    samples = np.arange(1000, dtype=np.float32)
    window = Window((SpeechSpan(1.0, 2.0), SpeechSpan(4.0, 4.5)))
    np.testing.assert_array_equal(window.take(samples, 100), np.r_[samples[100:200], samples[400:450]])
    np.testing.assert_array_equal(window.take(samples[50:], 100, origin=0.5), window.take(samples, 100))


def test_what_cannot_be_cut() -> None:
    with pytest.raises(AudioError, match=r"31\.00 s at 2\.00 s is longer than a window of 30 s"):
        cut_windows([SpeechSpan(2, 33)])
    with pytest.raises(AudioError, match=r"max_speech 0\.5 s leaves no room"):
        speech_segments(np.ones(100, np.float32), FRAME, 3.2, SegmentOptions(max_speech=0.5))
