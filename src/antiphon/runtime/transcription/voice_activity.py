"""Where in a recording there is speech: windows for a recogniser, cut at silences, as the recording is read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.audio.segments import Segment, SegmentOptions, Window, cut_windows, speech_segments
from antiphon.models.silero_vad import SileroVAD, voice_probabilities

VOICE_MODEL = "silero-vad"
#: Generous at both ends: a word lost to a cut is worse than a little silence kept.
SPEECH = SegmentOptions(threshold=0.4, release=0.25, min_speech=0.15, min_silence=0.5, padding=0.4, max_speech=30.0)
#: Silence up to this long stays inside a window.
MAX_GAP = 1.5
#: Sound that is held before windows are cut from it.
BUFFER_SECONDS = 150.0
#: Recordings are listened to one at a time: each takes all threads, and many at once would starve the engine of them.
_turn = threading.Lock()


@cache
def voice_model(path: Path | None = None) -> SileroVAD:
    """The voice activity model, fetched on first use. It keeps nothing of any stream, so one serves all."""
    from antiphon.models.registry import build_model
    from antiphon.weights.catalog.resolve import resolve
    from antiphon.weights.formats.open import open_checkpoint

    model = build_model(open_checkpoint(path or resolve(VOICE_MODEL).path))
    assert isinstance(model, SileroVAD)
    return model


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

    def speech_after(self, seconds: float) -> float:
        """Seconds of speech in the window after this moment of it."""
        first = max(0, round(seconds / self.frame_seconds))
        return float(np.count_nonzero(self.voice[first:] >= SPEECH.threshold)) * self.frame_seconds

    def loudest_voice(self, start: float, end: float) -> float:
        """The highest probability of speech between two moments of the window."""
        first = max(0, int(start / self.frame_seconds))
        last = max(first + 1, int(np.ceil(end / self.frame_seconds)))
        return float(self.voice[first:last].max(initial=0.0))

    def from_second(self, seconds: float) -> SpeechWindow:
        """What is left of the window after this moment of it."""
        spans, offset = [], 0.0
        for span in self.window.spans:
            cut = max(0.0, seconds - offset)
            offset += span.seconds
            if cut < span.seconds:
                spans.append(Segment(span.start + cut, span.end))
        frames = round(seconds / self.frame_seconds)
        samples = self.samples[round(seconds * SPEECH_RATE) :]
        return SpeechWindow(Window(tuple(spans)), samples, self.voice[frames:], self.frame_seconds)


class VoiceReader:
    """The probabilities of speech in a recording that comes in chunks."""

    def __init__(self, model: SileroVAD | None = None) -> None:
        self.model = model or voice_model()
        self._state = self.model.initial_state()

    @property
    def frame_seconds(self) -> float:
        return self.model.chunk_seconds

    def push(self, samples: Floats, *, final: bool = False) -> Floats:
        with _turn:
            return voice_probabilities(self.model, [samples], [self._state], final=final)[0]


def speech_windows(
    chunks: Iterable[Floats], max_seconds: float, reader: VoiceReader | None = None
) -> Iterator[SpeechWindow]:
    """Windows of speech in the order of the recording, cut at silences, in bounded memory.

    Where a stretch is cut depends only on the sound up to a few minutes after it.
    """
    reader = reader or VoiceReader()
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
    moved = Window(tuple(Segment(span.start + offset, span.end + offset) for span in window.spans))
    return SpeechWindow(moved, window.take(samples, SPEECH_RATE), np.concatenate(pieces), frame)


def _marked(chunks: Iterable[Floats]) -> Iterator[tuple[Floats, bool]]:
    """Each chunk with whether it is the last."""
    iterator = iter(chunks)
    held = next(iterator, None)
    while held is not None:
        following = next(iterator, None)
        yield held, following is None
        held = following
