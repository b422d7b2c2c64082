"""The messages between a server and its engine process, encoded with msgspec."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.engine.request import FinishReason
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.calls.events import TextDelta
from antiphon.runtime.calls.speech import TimedWord
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions
from antiphon.runtime.process.hearing_messages import Hear, HearingControls
from antiphon.text.grammar_spec import GrammarSpec

# Calls (see `runtime/calls/events.py`) are answered by `Deltas`, `SpeechPart` and `CallEvent`, or by `Rejected`.

# -- to the engine ------------------------------------------------------------------------------------------------


class LoadModel(msgspec.Struct, frozen=True, tag=True):
    """Make a model resident under a name. Answered by `Loaded` or `LoadFailed`.

    With `base`, it is an adapter of that resident model, at the path `reference`, and its name is `base:adapter`.
    Without `device`, it is loaded onto the engine's own.
    """

    name: str
    reference: str
    offline: bool = False
    base: str = ""
    device: str | None = None


class UnloadModel(msgspec.Struct, frozen=True, tag=True):
    """End the model's requests and give its memory back. Answered by `Unloaded`."""

    name: str


class Generate(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """`n` samples of a prompt, with ids `id/0` to `id/n-1`. A `GenerationCall`."""

    id: str
    model: str
    prompt: list[int]
    params: SamplingParams
    n: int = 1
    priority: int = 2
    timeout: float | None = None
    grammar: GrammarSpec | None = None
    cache_salt: str = ""


class EmbedInputs(msgspec.Struct, frozen=True, tag=True):
    """One vector per input of token ids. An `EmbeddingCall`, answered by `Embedded` or `Rejected`.

    With `second_starts` the inputs are pairs of texts, and these are where the second ones begin. A cross-encoder gives
    vectors of width 1, which are the scores.
    """

    id: str
    model: str
    inputs: list[list[int]]
    priority: int = 2
    second_starts: list[int] | None = None


class Transcribe(msgspec.Struct, frozen=True, tag=True):
    """A recording: mono at 16 kHz, float32 in native byte order. A `TranscriptionCall`.

    With `is_fed` the samples follow in `PushAudio`s, each answered by `PieceRead` when used; `EndAudio` ends them.
    """

    id: str
    model: str
    samples: bytes
    options: TranscriptionOptions
    is_fed: bool = False


class Listen(msgspec.Struct, frozen=True, tag=True):
    """A live session. A `LiveCall`."""

    id: str
    model: str
    options: TranscriptionOptions
    interval: float = DEFAULT_INTERVAL


class DetectVoice(msgspec.Struct, frozen=True, tag=True):
    """Where speech begins and ends in sound that follows in `PushAudio`s. A `VoiceActivityCall`.

    Speech ends at a silence of `min_silence` seconds.
    """

    id: str
    min_silence: float = 0.5


class PushAudio(msgspec.Struct, frozen=True, tag=True):
    """Sound for a live session, a hearing call, voice activity or a recording that is fed, as in `Transcribe`."""

    id: str
    samples: bytes


class EndAudio(msgspec.Struct, frozen=True, tag=True):
    """No more sound will come for a live session, a hearing call, voice activity or a recording that is fed."""

    id: str


class Speak(msgspec.Struct, frozen=True, tag=True):
    """A text to speak. A `SpeechCall`.

    With `is_open` more of the text follows in `AppendText`s and ends with `EndText`. A few chunks are sent ahead; then
    each needs a `ReleaseChunk`.
    """

    id: str
    model: str
    text: str
    options: SpeechOptions
    is_open: bool = False


class AppendText(msgspec.Struct, frozen=True, tag=True):
    """More of the text of a synthesis that is open."""

    id: str
    text: str


class EndText(msgspec.Struct, frozen=True, tag=True):
    """No more text will come for a synthesis that is open."""

    id: str


class ReleaseChunk(msgspec.Struct, frozen=True, tag=True):
    """A chunk of a synthesis has been read: another may be sent."""

    id: str


class Abort(msgspec.Struct, frozen=True, tag=True):
    """End every sample of a generate, an embed, a transcription, a live session, a hearing call or a synthesis.

    The ids of single samples are understood as well.
    """

    id: str
    reason: FinishReason = FinishReason.CANCELLED


class GetFigures(msgspec.Struct, frozen=True, tag=True):
    """Answered by `Figures`."""

    id: str


class WatchActivity(msgspec.Struct, frozen=True, tag=True):
    """Report what the engine does, until `UnwatchActivity`. Answered by an `Activity` with that id, a snapshot, and
    then by one without an id whenever something happened, some ten times a second."""

    id: str


class UnwatchActivity(msgspec.Struct, frozen=True, tag=True):
    """The last listener has gone."""


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """End everything and exit."""


#: What opens a call, and what reaches one that is open.
Opening = Generate | EmbedInputs | Transcribe | Listen | DetectVoice | Hear | Speak
Control = PushAudio | EndAudio | HearingControls | AppendText | EndText | ReleaseChunk | Abort
ToEngine = Opening | Control | LoadModel | UnloadModel | GetFigures | WatchActivity | UnwatchActivity | Shutdown


# -- from the engine ----------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, tag=True):
    """The engine's process is up and reads commands."""

    pid: int


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """Sent about once a second by a thread that is not the loop; `busy_seconds` is how long the present step runs."""

    steps: int
    busy_seconds: float


class DeviceMemory(msgspec.Struct, frozen=True):
    """A device that the engine has opened: bytes for weights and cache together, and those of its cache's arena."""

    name: str
    hardware: str
    total_bytes: int
    budget_bytes: int
    #: 0 until the arena is reserved.
    kv_bytes: int


class Devices(msgspec.Struct, frozen=True, tag=True):
    """The devices in use: sent before `Started`, and before the answer to a load or unload that changed them."""

    items: list[DeviceMemory]
    #: That of a model which asks for none, and of one which asks for `auto`.
    default: str
    auto: str


class VoiceFields(msgspec.Struct, frozen=True):
    """A voice of a model that speaks."""

    name: str
    language: str
    gender: str | None = None


class Loaded(msgspec.Struct, frozen=True, tag=True):
    name: str
    task: str  # a `Task`
    max_tokens: int
    weight_bytes: int
    seconds: dict[str, float]
    forms: str = ""  # what the weights became, as text
    #: Of a speech model, and its default.
    voices: list[VoiceFields] = []
    default_voice: str | None = None
    #: References of the detectors that calls to it may use.
    companions: list[str] = []
    #: Where it computes.
    device: str = "cpu"


class LoadFailed(msgspec.Struct, frozen=True, tag=True):
    name: str
    kind: str  # the error's class
    message: str


class Unloaded(msgspec.Struct, frozen=True, tag=True):
    name: str


class CallEvent(msgspec.Struct, frozen=True, tag=True):
    """An event of a call, by the name of its class; see `process/channel.py`."""

    id: str
    kind: str
    event: msgspec.Raw


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """A request that was not taken, or an embed that failed; `kind` is the class of the `AntiphonError`.

    With an empty id: the engine could not be set up, and the process exits.
    """

    id: str
    kind: str
    message: str


class Deltas(msgspec.Struct, frozen=True, tag=True):
    """All that a step gave, in one message."""

    items: list[TextDelta]


class Embedded(msgspec.Struct, frozen=True, tag=True):
    """`vectors` are float32 in native byte order, one row per input."""

    id: str
    vectors: bytes
    width: int
    prompt_tokens: int


class SpeechPart(msgspec.Struct, frozen=True, tag=True):
    """The sound of a clause: float32 samples in native byte order, and where in the speech they stand."""

    id: str
    samples: bytes
    rate: int
    start: float
    text: str
    words: list[TimedWord]


class Figures(msgspec.Struct, frozen=True, tag=True):
    """What `FrontEnd.figures` returns, and resident bytes of the process."""

    id: str
    values: dict[str, Any]


class Activity(msgspec.Struct, frozen=True, tag=True):
    """What the engine does, as JSON: a snapshot for a listener, or what happened since, for all."""

    id: str
    content: bytes


class Dying(msgspec.Struct, frozen=True, tag=True):
    """The engine's loop broke; the process exits after this."""

    cause: str


#: Events of calls, then answers, then the state of the process.
_Events = Deltas | SpeechPart | CallEvent | Rejected
_Answers = Loaded | LoadFailed | Unloaded | Embedded | Figures | Activity
FromEngine = _Events | _Answers | Devices | Started | Heartbeat | Dying

encode = msgspec.msgpack.Encoder().encode
decode_command = msgspec.msgpack.Decoder(ToEngine).decode
decode_event = msgspec.msgpack.Decoder(FromEngine).decode
