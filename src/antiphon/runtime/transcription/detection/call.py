"""`VoiceActivityCall`: where speech begins and ends in sound that is being sent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.audio.segments import SegmentOptions, SpeechTracker
from antiphon.engine.request import FinishReason, Priority
from antiphon.errors import check_values
from antiphon.runtime.calls.detectors import Detectors
from antiphon.runtime.calls.port import CallEngine
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.calls.thread_call import ThreadCall
from antiphon.runtime.calls.voice_events import VoiceEnded, VoiceEvent, VoiceStarted, VoiceStopped
from antiphon.runtime.transcription.detection.voice_activity import VoiceReader

if TYPE_CHECKING:  # needs msgspec, which an embedded engine runs without
    from antiphon.runtime.calls.tasks import DetectVoice

THRESHOLD, RELEASE = 0.5, 0.35
#: Seconds of speech above which it is reported.
MIN_SPEECH = 0.2


class SpeechEdges:
    """Edges of speech, from its probabilities: `VoiceStarted` and `VoiceStopped` alternately. No thread, no clock."""

    def __init__(self, frame_seconds: float, min_silence: float) -> None:
        self._frame_seconds = frame_seconds
        options = SegmentOptions(THRESHOLD, RELEASE, min_speech=MIN_SPEECH, min_silence=min_silence)
        self._tracker = SpeechTracker(frame_seconds, options)
        self._num_frames = 0
        self._has_started = False

    def push(self, probabilities: Floats) -> Iterator[VoiceEvent]:
        for probability in probabilities.tolist():
            self._num_frames += 1
            for segment in self._tracker.push([probability]):  # longer than MIN_SPEECH, so it was reported
                self._has_started = False
                yield VoiceStopped(segment.end)
            since = self._tracker.speaking_since
            if since is not None and not self._has_started and self._speech_end - since > MIN_SPEECH:
                self._has_started = True
                yield VoiceStarted(since)

    def finish(self) -> Iterator[VoiceEvent]:
        """Yield `VoiceStopped` if speech is open at the end of the sound."""
        if self._has_started:
            self._has_started = False
            yield VoiceStopped(self._speech_end)

    @property
    def _speech_end(self) -> float:
        """End of the open speech as far as is known, in seconds."""
        quiet = self._tracker.quiet_since
        return self._num_frames * self._frame_seconds if quiet is None else quiet


class VoiceActivityCall(ThreadCall):
    """A call that emits `VoiceStarted` and `VoiceStopped` alternately, and `VoiceEnded` or an error at the end.

    Create it, `prepare` it, then `start` it. Sound may be pushed, and the call cancelled, from its creation on.
    """

    id_prefix = "voice-activity"
    _subject = "voice activity detection"
    _voice: VoiceReader
    _edges: SpeechEdges

    def __init__(self, call_id: str, sink: Sink) -> None:
        super().__init__(call_id, sink)
        self._inbox: SimpleQueue[Floats | None] = SimpleQueue()
        self._is_cancelled = threading.Event()

    def prepare(self, detectors: Detectors, min_silence: float) -> None:
        """Load the detector; raise the error that rejects the call."""
        check_values((0 < min_silence <= 10, "min_silence", min_silence, "above 0 and at most 10 seconds"))
        self._voice = VoiceReader(detectors, Priority.HIGH)
        self._edges = SpeechEdges(self._voice.frame_seconds, min_silence)

    def begin(self, engine: CallEngine, request: DetectVoice) -> None:
        self.prepare(engine.port.detectors, request.min_silence)
        self._start_accepted()

    # -- for any thread -----------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        self._inbox.put(np.asarray(samples, np.float32))

    def finish(self) -> None:
        self._inbox.put(None)

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._is_cancelled.set()
        self._inbox.put(None)

    # -- the call's thread --------------------------------------------------------------------------------------

    def _work(self) -> VoiceEnded:
        num_samples = 0
        while (samples := self._inbox.get()) is not None and not self._is_cancelled.is_set():
            num_samples += len(samples)
            self._emit(self._edges.push(self._voice.push(samples)))
        if not self._is_cancelled.is_set():
            self._emit(self._edges.push(self._voice.push(np.zeros(0, np.float32), final=True)))
            self._emit(self._edges.finish())
        return VoiceEnded(num_samples / SPEECH_RATE)

    def _emit(self, events: Iterable[VoiceEvent]) -> None:
        for event in events:
            self._sink.put(self.id, event)
