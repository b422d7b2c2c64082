"""Segments of speech from its probabilities, and windows of segments for a recogniser."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.errors import AudioError

_TOLERANCE = 1e-6  # seconds
#: Speech probability up to which a frame is quiet enough to cut long speech there.
QUIET = 0.2


@dataclass(frozen=True)
class SegmentOptions:
    """Rules for the start and end of speech, in probabilities and seconds.

    Speech begins at a frame of at least `threshold` and ends where frames stay under `release` for `min_silence`.
    Segments shorter than `min_speech` are dropped; the rest grow by `padding` at both ends, meeting halfway where
    two would overlap. A segment longer than `max_speech` is cut at the last fitting frame with a low probability.
    """

    threshold: float = 0.5
    release: float = 0.35
    min_speech: float = 0.25
    min_silence: float = 0.1
    padding: float = 0.2
    max_speech: float = float("inf")


@dataclass(frozen=True)
class SpeechSpan:
    """Part of a recording, in seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Window:
    """Parts of a recording, concatenated for one pass of a recogniser. The spans are in order and disjoint."""

    spans: tuple[SpeechSpan, ...]

    @property
    def seconds(self) -> float:
        return sum(span.seconds for span in self.spans)

    @property
    def start(self) -> float:
        return self.spans[0].start

    @property
    def end(self) -> float:
        return self.spans[-1].end

    @property
    def bounds(self) -> tuple[float, ...]:
        """Start of each span in seconds of the window, then the end of the last span."""
        return tuple(accumulate((span.seconds for span in self.spans), initial=0.0))

    def file_times(self, start: float, end: float) -> tuple[float, float]:
        """Return the times in the recording of a part of the window, clipped to the span that holds its middle.

        So no part includes sound that was left out between two spans.
        """
        bounds = self.bounds
        index = span_index(bounds, (start + end) / 2)
        span, origin = self.spans[index], bounds[index]
        first, last = (min(max(0.0, moment - origin), span.seconds) for moment in (start, end))
        return span.start + first, span.start + last

    def take(self, samples: Floats, rate: int, origin: float = 0.0) -> Floats:
        """Return the window's sound from samples of the recording that begin at `origin` seconds."""
        pieces = [samples[round((s.start - origin) * rate) : round((s.end - origin) * rate)] for s in self.spans]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def span_index(bounds: Sequence[float], moment: float) -> int:
    """Return the index of the span between two `bounds` that holds a time; the first or last for a time outside."""
    return min(max(0, bisect_right(bounds, moment) - 1), len(bounds) - 2)


def speech_segments(
    probabilities: Floats, frame_seconds: float, seconds: float, options: SegmentOptions | None = None
) -> list[SpeechSpan]:
    """Return the speech of a recording of `seconds`, in order and disjoint, from one probability per frame."""
    options = options or SegmentOptions()
    tracker = SpeechTracker(frame_seconds, options)
    found = tracker.push(probabilities) + tracker.finish()
    segments = [piece for segment in found for piece in _cut_long(segment, probabilities, frame_seconds, options)]
    return _padded(segments, seconds, options.padding)


class SpeechTracker:
    """Finder of speech in a stream of probabilities.

    Its segments are unpadded, on frame boundaries, and at least `min_speech` long; `max_speech` is not applied.
    """

    def __init__(self, frame_seconds: float, options: SegmentOptions | None = None) -> None:
        self.frame_seconds = frame_seconds
        self.options = options or SegmentOptions()
        self._index = 0
        self._start: int | None = None
        self._quiet: int | None = None  # first frame of the silence that may end the segment

    @property
    def speaking_since(self) -> float | None:
        """Start of the open segment in seconds, or None."""
        return None if self._start is None else self._start * self.frame_seconds

    @property
    def quiet_since(self) -> float | None:
        """Start of the current silence within the open segment, in seconds, or None."""
        return None if self._quiet is None else self._quiet * self.frame_seconds

    def push(self, probabilities: Floats | Sequence[float]) -> list[SpeechSpan]:
        """Return the segments that ended within these frames."""
        done = []
        options, silence = self.options, self.options.min_silence / self.frame_seconds
        for probability in np.asarray(probabilities, np.float32).tolist():
            if probability >= options.threshold:
                self._quiet = None
                if self._start is None:
                    self._start = self._index
            elif self._start is not None and probability < options.release:
                if self._quiet is None:
                    self._quiet = self._index
                if self._index - self._quiet >= silence:
                    done += self._close(self._quiet)
            self._index += 1
        return done

    def finish(self) -> list[SpeechSpan]:
        """Return the segment that is still open at the end of the sound, if it is long enough."""
        return [] if self._start is None else self._close(self._index)

    def _close(self, end: int) -> list[SpeechSpan]:
        assert self._start is not None
        segment = SpeechSpan(self._start * self.frame_seconds, end * self.frame_seconds)
        self._start = self._quiet = None
        return [segment] if segment.seconds > self.options.min_speech else []


def cut_windows(
    segments: Sequence[SpeechSpan], max_seconds: float = 30.0, max_gap: float = 1.0, slack: float = 4.0
) -> list[Window]:
    """Pack segments in order into windows of at most `max_seconds`.

    A window that cannot fit the next segment ends at the longest silence within its last `slack` seconds. Silence of up
    to `max_gap` between two segments of a window is kept; longer silence is removed, which leaves a seam in the window.
    Raise `AudioError` for a segment longer than a window, which `max_speech` avoids.
    """
    windows: list[Window] = []
    first = 0
    while first < len(segments):
        if segments[first].seconds > max_seconds + _TOLERANCE:
            raise AudioError(
                f"a segment of {segments[first].seconds:.2f} s at {segments[first].start:.2f} s is longer than "
                f"a window of {max_seconds:g} s"
            )
        grown = [Window((segments[first],))]
        for segment in segments[first + 1 :]:
            extended = _extend(grown[-1], segment, max_gap)
            if extended.seconds > max_seconds + _TOLERANCE:
                break
            grown.append(extended)
        count = len(grown)
        if first + count < len(segments):
            near = [n for n in range(1, count + 1) if grown[n - 1].seconds >= grown[-1].seconds - slack]
            count = max(near, key=lambda n: (segments[first + n].start - segments[first + n - 1].end, n))
        windows.append(grown[count - 1])
        first += count
    return windows


def _extend(window: Window, segment: SpeechSpan, max_gap: float) -> Window:
    last = window.spans[-1]
    if segment.start - last.end <= max_gap:
        return Window((*window.spans[:-1], replace(last, end=segment.end)))
    return Window((*window.spans, segment))


def _cut_long(
    segment: SpeechSpan, probabilities: Floats, frame_seconds: float, options: SegmentOptions
) -> list[SpeechSpan]:
    """Cut the segment into parts of at most `max_speech` including padding, each cut in its later half."""
    limit = options.max_speech - 2 * options.padding
    if segment.seconds <= limit:
        return [segment]
    if limit <= 4 * frame_seconds:
        raise AudioError(f"max_speech {options.max_speech:g} s leaves no room beside padding {options.padding:g} s")
    first, last = round(segment.start / frame_seconds), round(segment.end / frame_seconds)
    longest = int(limit / frame_seconds)
    bounds = [first]
    while last - bounds[-1] > longest:
        low, high = bounds[-1] + longest // 2, bounds[-1] + longest
        # The latest cut that is quiet enough over three frames leaves the longest part.
        around = np.convolve(probabilities[low - 1 : high + 1], np.full(3, 1 / 3), "valid")
        fitting = np.flatnonzero(around <= max(float(around.min()), QUIET))
        bounds.append(low + int(fitting[-1]))
    bounds.append(last)
    return [SpeechSpan(a * frame_seconds, b * frame_seconds) for a, b in pairwise(bounds)]


def _padded(segments: Sequence[SpeechSpan], seconds: float, padding: float) -> list[SpeechSpan]:
    out = []
    for index, segment in enumerate(segments):
        before = segments[index - 1].end if index else -float("inf")
        after = segments[index + 1].start if index + 1 < len(segments) else float("inf")
        start = max(0.0, segment.start - min(padding, (segment.start - before) / 2))
        end = min(seconds, segment.end + min(padding, (after - segment.end) / 2))
        if end > start:
            out.append(SpeechSpan(start, end))
    return out
