"""`LiveWindows`: windows of speech in sound as it arrives."""

from __future__ import annotations

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.audio.segments import SegmentOptions, SpeechTracker
from antiphon.runtime.calls.detectors import Detectors
from antiphon.runtime.transcription.detection.voice_activity import VoiceTrack

SPEECH = SegmentOptions(threshold=0.5, release=0.3, min_speech=0.2, min_silence=1.2)
#: Seconds of sound added to a window before and after the detected speech.
PADDING_SECONDS = 0.3
#: Maximum seconds of an open window, which is then closed at the quietest moment of its last seconds.
MAX_OPEN_SECONDS = 24.0
QUIET_SEARCH_SECONDS = 2.0
#: Seconds of sound kept while there is no speech, so that the beginning of a word is not lost.
IDLE_SECONDS = 2.0


class LiveWindows:
    """Windows that open where speech begins and close at a silence. Positions are in samples.

    `open_start` is where the open window begins, or None; `closed` are the windows that have ended and are not
    transcribed yet.
    """

    def __init__(self, detectors: Detectors) -> None:
        self.track = VoiceTrack(detectors)
        self.tracker = SpeechTracker(self.track.frame_seconds, SPEECH)
        self.open_start: int | None = None
        self.closed: list[tuple[int, int]] = []

    def push(self, samples: Floats, in_use: int | None, *, final: bool = False) -> bool:
        """Add sound; return whether the open window turned out to be no speech. Sound from `in_use` on is kept."""
        track = self.track
        ended = self.tracker.push(track.push(samples, final=final))
        if final:
            ended += self.tracker.finish()
        padding = round(PADDING_SECONDS * SPEECH_RATE)
        for segment in ended:
            start = self.open_start if self.open_start is not None else round(segment.start * SPEECH_RATE) - padding
            end = min(track.end, round(segment.end * SPEECH_RATE) + padding)
            self._close(max(start, track.origin), end)
            self.open_start = None
        since = self.tracker.speaking_since
        was_no_speech = since is None and self.open_start is not None
        if was_no_speech:
            self.open_start = None
        if since is not None and self.open_start is None:
            after = self.closed[-1][1] if self.closed else track.origin
            self.open_start = max(track.origin, after, round(since * SPEECH_RATE) - padding)
        if self.open_start is not None and track.end - self.open_start > MAX_OPEN_SECONDS * SPEECH_RATE:
            cut = track.quietest(QUIET_SEARCH_SECONDS)
            self._close(self.open_start, cut)
            self.open_start = cut
        self._forget(in_use)
        return was_no_speech

    def _close(self, start: int, end: int) -> None:
        if end > start:
            self.closed.append((start, end))

    def _forget(self, in_use: int | None) -> None:
        """Discard sound before all windows that are open, closed or being transcribed."""
        needed = [start for start, _ in self.closed]
        needed += [start for start in (self.open_start, in_use) if start is not None]
        self.track.forget(min(needed, default=self.track.end - round(IDLE_SECONDS * SPEECH_RATE)))
