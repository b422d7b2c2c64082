"""Speech in a recording: windows for a recogniser, cut at silences, as the recording is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.audio.segments import SegmentOptions, SpeechSpan, Window, cut_windows, speech_segments
from antiphon.engine.request import Priority
from antiphon.models.base.companions import VOICE_ACTIVITY
from antiphon.models.silero_vad import SileroVAD, VoiceInput
from antiphon.runtime.calls.detectors import Detectors

#: Options that are generous at both ends: a word lost to a cut is worse than a little silence kept.
SPEECH = SegmentOptions(threshold=0.4, release=0.25, min_speech=0.15, min_silence=0.5, padding=0.4, max_speech=30.0)
#: Maximum seconds without voice inside a word, as in a stop consonant.
MAX_CLOSURE = 0.16
#: Maximum seconds of silence inside a window.
MAX_GAP = 1.5
#: Seconds without speech after which the detector's state is reset: a longer memory of noise hides the speech after it.
RESTART_SECONDS = 2.0
#: Seconds of sound that are buffered before windows are cut.
BUFFER_SECONDS = 150.0


@dataclass(frozen=True)
class VoiceFrames:
    """Probability of speech in each frame. `start` is the time of the first frame, in seconds."""

    values: Floats
    frame_seconds: float
    start: float = 0.0

    def runs(self, start: float, end: float) -> list[tuple[float, float]]:
        """Return the runs of speech between two times, on frame edges, in seconds.

        Gaps of at most `MAX_CLOSURE` are part of a run.
        """
        first = max(0, int((start - self.start) / self.frame_seconds))
        last = max(first, int(np.ceil((end - self.start) / self.frame_seconds)))
        voiced = np.flatnonzero(self.values[first:last] >= SPEECH.threshold) + first
        if not len(voiced):
            return []
        breaks = np.flatnonzero(np.diff(voiced) * self.frame_seconds > MAX_CLOSURE) + 1
        return [
            (self.start + int(run[0]) * self.frame_seconds, self.start + (int(run[-1]) + 1) * self.frame_seconds)
            for run in np.split(voiced, breaks)
        ]


@dataclass(frozen=True)
class SpeechWindow:
    """Sound for one pass of a recogniser, with the probability of speech in each of its frames."""

    window: Window
    samples: Floats
    voice: Floats
    frame_seconds: float

    @property
    def seconds(self) -> float:
        return len(self.samples) / SPEECH_RATE

    @property
    def voice_frames(self) -> VoiceFrames:
        return VoiceFrames(self.voice, self.frame_seconds)

    def speech_after(self, seconds: float) -> float:
        """Return the seconds of speech in the window after its first `seconds`."""
        first = max(0, round(seconds / self.frame_seconds))
        return float(np.count_nonzero(self.voice[first:] >= SPEECH.threshold)) * self.frame_seconds

    def loudest_voice(self, start: float, end: float) -> float:
        """Return the highest probability of speech between two times, in seconds of the window."""
        first = max(0, int(start / self.frame_seconds))
        last = max(first + 1, int(np.ceil(end / self.frame_seconds)))
        return float(self.voice[first:last].max(initial=0.0))

    def from_second(self, seconds: float) -> SpeechWindow:
        """Return the window without its first `seconds`."""
        spans, offset = [], 0.0
        for span in self.window.spans:
            cut = max(0.0, seconds - offset)
            offset += span.seconds
            if cut < span.seconds:
                spans.append(SpeechSpan(span.start + cut, span.end))
        frames = round(seconds / self.frame_seconds)
        samples = self.samples[round(seconds * SPEECH_RATE) :]
        return SpeechWindow(Window(tuple(spans)), samples, self.voice[frames:], self.frame_seconds)


class VoiceReader:
    """Reader of the probability of speech in sound that comes in chunks, with the engine's detector."""

    def __init__(self, detectors: Detectors, priority: Priority = Priority.NORMAL) -> None:
        model = detectors.model(VOICE_ACTIVITY)
        assert isinstance(model, SileroVAD)
        self.frame_seconds = model.chunk_seconds
        self._max_samples = model.max_samples
        self._state = model.initial_state(RESTART_SECONDS)
        self._detectors = detectors
        self._priority = priority

    def push(self, samples: Floats, *, final: bool = False) -> Floats:
        """Return the probabilities of the frames that the samples complete.

        Many samples are divided into several requests, so that other requests come between them.
        """
        starts = range(0, max(1, len(samples)), self._max_samples)
        pieces = [samples[start : start + self._max_samples] for start in starts]
        ends = [False] * (len(pieces) - 1) + [final]
        inputs = (VoiceInput(piece, self._state, end) for piece, end in zip(pieces, ends, strict=True))
        return np.concatenate([self._detectors.run(VOICE_ACTIVITY, given, self._priority) for given in inputs])


class VoiceTrack:
    """Sound as it arrives, with the probability of speech in each frame. Positions are in samples of the stream.

    All sound is kept until `forget`.
    """

    def __init__(self, detectors: Detectors) -> None:
        self._reader = VoiceReader(detectors, Priority.CRITICAL)
        self.frame_seconds = self._reader.frame_seconds
        #: Samples per frame.
        self.frame = round(self.frame_seconds * SPEECH_RATE)
        self._samples: Floats = np.zeros(0, np.float32)
        #: Position of the first sample that is kept.
        self.origin = 0
        self._voice: list[float] = []
        self._first_frame = 0

    @property
    def end(self) -> int:
        return self.origin + len(self._samples)

    def push(self, samples: Floats, *, final: bool = False) -> Floats:
        """Add samples; return the probabilities of the frames that they complete."""
        self._samples = np.concatenate([self._samples, samples])
        voice = self._reader.push(samples, final=final)
        self._voice.extend(voice.tolist())
        return voice

    def samples(self, start: int, end: int) -> Floats:
        return self._samples[start - self.origin : end - self.origin]

    def voiced(self, start: int, end: int, threshold: float) -> tuple[int, int] | None:
        """Return the range from the first to the last frame that reaches the threshold between two positions.

        Return None if no frame reaches it.
        """
        first = max(0, start // self.frame - self._first_frame)
        last = -(-end // self.frame) - self._first_frame
        found = [index for index, voice in enumerate(self._voice[first:last], first) if voice >= threshold]
        if not found:
            return None
        edges = (found[0] + self._first_frame) * self.frame, (found[-1] + 1 + self._first_frame) * self.frame
        return max(start, edges[0]), min(end, edges[1])

    def voice_frames(self, start: int, end: int) -> VoiceFrames:
        """Return the frames between two positions, with times in seconds after `start`."""
        first = max(start // self.frame, self._first_frame)
        values = self._voice[first - self._first_frame : -(-end // self.frame) - self._first_frame]
        return VoiceFrames(np.array(values, np.float32), self.frame_seconds, (first * self.frame - start) / SPEECH_RATE)

    def quietest(self, seconds: float) -> int:
        """Return the position of the frame that is least like speech in the last seconds."""
        late = self._voice[-round(seconds / self.frame_seconds) :]
        return (self._first_frame + len(self._voice) - len(late) + int(np.argmin(late))) * self.frame

    def forget(self, position: int) -> None:
        """Discard sound before the position, unless it is less than a second, which is not worth a copy."""
        if position - self.origin > SPEECH_RATE:
            self._samples, self.origin = self._samples[position - self.origin :].copy(), position
            old = max(0, position // self.frame - self._first_frame)
            del self._voice[:old]
            self._first_frame += old


def speech_windows(chunks: Iterable[Floats], max_seconds: float, detectors: Detectors) -> Iterator[SpeechWindow]:
    """Yield windows of speech in the order of the recording, cut at silences, in bounded memory.

    A cut depends only on the sound up to a few minutes after it.
    """
    reader = VoiceReader(detectors)
    frame = reader.frame_seconds
    samples: Floats = np.zeros(0, np.float32)
    voice: Floats = np.zeros(0, np.float32)
    origin = 0  # frames before the buffer
    for chunk, is_last in _marked(chunks):
        samples = np.concatenate([samples, chunk])
        voice = np.concatenate([voice, reader.push(chunk, final=is_last)])
        if not is_last and len(samples) < BUFFER_SECONDS * SPEECH_RATE:
            continue
        segments = speech_segments(voice, frame, len(samples) / SPEECH_RATE, SPEECH)
        windows = cut_windows(segments, max_seconds, MAX_GAP)
        ready = windows if is_last else windows[:-1]
        for window in ready:
            yield _taken(window, samples, voice, frame, origin * frame)
        if not is_last:
            kept = windows[-1].start if windows else max(0.0, len(samples) / SPEECH_RATE - 1.0)
            drop = int(kept / frame)
            voice, samples = voice[drop:], samples[round(drop * frame * SPEECH_RATE) :].copy()
            origin += drop


def _taken(window: Window, samples: Floats, voice: Floats, frame: float, offset: float) -> SpeechWindow:
    bounds = [(round(span.start / frame), round(span.end / frame)) for span in window.spans]
    pieces = [voice[first : max(last, first + 1)] for first, last in bounds]
    moved = Window(tuple(SpeechSpan(span.start + offset, span.end + offset) for span in window.spans))
    return SpeechWindow(moved, window.take(samples, SPEECH_RATE), np.concatenate(pieces), frame)


def _marked(chunks: Iterable[Floats]) -> Iterator[tuple[Floats, bool]]:
    """Yield each chunk and whether it is the last."""
    iterator = iter(chunks)
    held = next(iterator, None)
    while held is not None:
        following = next(iterator, None)
        yield held, following is None
        held = following
