"""Results of a transcription: words, segments, the whole transcript, and the events that lead to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.runtime.calls.events import CallEvent, FinalEvent


@dataclass(frozen=True)
class Word:
    """A word of the text, with its leading space. Times are seconds of the recording."""

    text: str
    start: float
    end: float
    probability: float


@dataclass(frozen=True)
class Segment:
    """About a sentence. Temperature, log-probability and ratios are those of its window of up to 30 seconds."""

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 1.0
    no_speech_prob: float = 0.0
    #: Start of the segment's window, in seconds of the recording.
    seek: float = 0.0
    words: tuple[Word, ...] = ()
    #: Log-probability of each token when it was sampled.
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class TranscriptionStats:
    """Statistics of a transcription."""

    audio_seconds: float
    speech_seconds: float
    processing_seconds: float
    time_to_first_text: float | None
    num_windows: int
    num_fallbacks: int
    num_tokens: int

    @property
    def real_time_factor(self) -> float:
        """Processing seconds per second of sound; below 1 is faster than real time."""
        return self.processing_seconds / self.audio_seconds if self.audio_seconds else 0.0


@dataclass(frozen=True)
class Transcript(FinalEvent):
    """The transcript of a recording. `language` is a code such as `en`; its probability is 1 if it was given."""

    language: str
    language_probability: float
    duration: float
    segments: tuple[Segment, ...]
    task: str
    stats: TranscriptionStats = field(compare=False)

    @property
    def text(self) -> str:
        """Text of all segments."""
        return joined_text(self.segments)

    @property
    def words(self) -> list[Word]:
        """All words with their times; empty unless `words` was requested."""
        return [word for segment in self.segments for word in segment.words]


@dataclass(frozen=True)
class TranscriptProgress(CallEvent):
    """Segments that have become final, in the order of the recording, and the seconds processed so far."""

    segments: tuple[Segment, ...]
    #: Text that these segments add: all such texts joined are the transcript's text.
    text: str
    processed_seconds: float
    total_seconds: float | None


@dataclass(frozen=True)
class LiveUpdate(CallEvent):
    """New text of a live session. Joined, all `text` is the transcript; `tail` follows it and replaces the last tail.

    `segment` is a window that has closed. `seconds` is the sound received when the update was made.
    """

    text: str
    tail: str
    segment: Segment | None
    seconds: float


#: Events of a transcription: progress, and at the end the transcript.
TranscriptEvent = TranscriptProgress | Transcript


def joined_text(segments: tuple[Segment, ...] | list[Segment]) -> str:
    return "".join(segment.text for segment in segments).strip()
