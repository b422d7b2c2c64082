"""The tasks of an engine, each declared once: its options, the events of its calls, and the input that a call takes.

The engine process and its client derive their messages, decoders and dispatch from these classes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, get_args

import msgspec

from antiphon.audio.samples import Floats
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.calls.control import CallControl, HearingControl, SoundControl, SpeechControl
from antiphon.runtime.calls.events import Embeddings, Ended, PieceRead, TextDelta
from antiphon.runtime.calls.hearing import HearingEvent
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptProgress
from antiphon.runtime.calls.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.calls.voice_events import VoiceEvent
from antiphon.text.grammar_spec import GrammarSpec


class CallThreads(StrEnum):
    """The threads of the engine process in which calls begin."""

    GRAMMAR = "grammar"
    EMBEDDING = "embedding"
    #: A recording stays in its thread until it ends.
    RECORDING = "recording"
    #: A session has a thread of its own once it has begun.
    SESSION = "session"


class TaskRequest(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of the tasks. A subclass declares a task; an instance requests one call, under the caller's id.

    The fields are the options. If a task sets no `yields`, its calls emit only `Accepted` and errors.
    """

    #: `module:class` of the calls, imported only by engines. Its `begin` takes the engine and the request.
    implementation: ClassVar[str]
    #: Events of a call, apart from `Accepted` and errors.
    yields: ClassVar[tuple[type, ...]] = ()
    #: Protocol of the input that a running call takes; its methods are messages to the engine process.
    control: ClassVar[type] = CallControl

    id: str

    @property
    def num_samples(self) -> int:
        """Number of `Ended` events that end the call, each under an id of its own."""
        return 1

    @property
    def begins_in(self) -> CallThreads | None:
        """Thread of the engine process in which the call begins; None for the thread that reads its messages."""
        return CallThreads.SESSION

    def accepts(self, method: str) -> bool:
        """Return whether the call takes this input; other input is ignored."""
        return hasattr(self.control, method)


class Generate(TaskRequest, frozen=True):
    """`n` samples of a prompt, with ids `id/0` to `id/n-1`."""

    implementation: ClassVar[str] = "antiphon.runtime.text.calls:GenerationCall"
    yields: ClassVar[tuple[type, ...]] = (TextDelta, Ended)

    model: str
    prompt: list[int]
    params: SamplingParams
    n: int = 1
    priority: int = 2
    timeout: float | None = None
    grammar: GrammarSpec | None = None
    cache_salt: str = ""

    @property
    def num_samples(self) -> int:
        return self.n

    @property
    def begins_in(self) -> CallThreads | None:
        return None if self.grammar is None else CallThreads.GRAMMAR


class EmbedInputs(TaskRequest, frozen=True):
    """A vector for each input of token ids.

    With `second_starts` the inputs are pairs of texts, and these are the indices at which the second texts begin. A
    cross-encoder returns vectors of width 1, which are the scores.
    """

    implementation: ClassVar[str] = "antiphon.runtime.text.calls:EmbeddingCall"
    yields: ClassVar[tuple[type, ...]] = (Embeddings,)

    model: str
    inputs: list[list[int]]
    priority: int = 2
    second_starts: list[int] | None = None

    @property
    def begins_in(self) -> CallThreads | None:
        return CallThreads.EMBEDDING


class Transcribe(TaskRequest, frozen=True):
    """A recording, mono at 16 kHz. Without `samples` it is pushed in chunks; `PieceRead` reports each used chunk."""

    implementation: ClassVar[str] = "antiphon.runtime.transcription.call:TranscriptionCall"
    yields: ClassVar[tuple[type, ...]] = (TranscriptProgress, PieceRead, Transcript)
    control: ClassVar[type] = SoundControl

    model: str
    options: TranscriptionOptions
    samples: Floats | None = None

    @property
    def begins_in(self) -> CallThreads | None:
        return CallThreads.RECORDING


class Listen(TaskRequest, frozen=True):
    """A live session: a transcript that follows the sound as it is pushed."""

    implementation: ClassVar[str] = "antiphon.runtime.transcription.listening.call:LiveCall"
    yields: ClassVar[tuple[type, ...]] = (LiveUpdate, Transcript)
    control: ClassVar[type] = SoundControl

    model: str
    options: TranscriptionOptions
    interval: float = DEFAULT_INTERVAL


class DetectVoice(TaskRequest, frozen=True):
    """Voice activity in pushed sound: where speech begins, and where it ends with `min_silence` seconds of silence."""

    implementation: ClassVar[str] = "antiphon.runtime.transcription.detection.call:VoiceActivityCall"
    yields: ClassVar[tuple[type, ...]] = get_args(VoiceEvent)
    control: ClassVar[type] = SoundControl

    min_silence: float = 0.5


class Hear(TaskRequest, frozen=True):
    """Turns of speech and their transcripts, in pushed sound."""

    implementation: ClassVar[str] = "antiphon.runtime.voice.hearing:HearingCall"
    yields: ClassVar[tuple[type, ...]] = get_args(HearingEvent)
    control: ClassVar[type] = HearingControl

    model: str
    options: HearingOptions


class Speak(TaskRequest, frozen=True):
    """A text to speak. With `is_open`, more text is appended until `end_text`.

    A few chunks are sent ahead; each chunk that is read releases another.
    """

    implementation: ClassVar[str] = "antiphon.runtime.speech.call:SpeechCall"
    yields: ClassVar[tuple[type, ...]] = (SpeechChunk, SpeechStats)
    control: ClassVar[type] = SpeechControl

    model: str
    text: str
    options: SpeechOptions
    is_open: bool = False

    def accepts(self, method: str) -> bool:
        return super().accepts(method) and (self.is_open or method == "release")


#: All tasks. A new task is a class above, and its name here.
TASKS: list[type[TaskRequest]] = [Generate, EmbedInputs, Transcribe, Listen, DetectVoice, Hear, Speak]
