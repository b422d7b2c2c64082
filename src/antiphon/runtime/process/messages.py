"""Messages between a server and its engine process, encoded with msgspec.

A `TaskRequest` opens a call, `CallInput`s follow while it runs, and `Deltas`, `EventMessage` and `Rejected` answer it.
All of these derive from the tasks that are declared in `runtime/calls/tasks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Union, cast, get_type_hints

import msgspec
import numpy as np

from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import TextDelta
from antiphon.runtime.calls.tasks import TASKS, TaskRequest

# -- to the engine ------------------------------------------------------------------------------------------------


class LoadModel(msgspec.Struct, frozen=True, tag=True):
    """Command to make a model resident under a name. Answered by `Loaded` or `LoadFailed`.

    With `base`, it is an adapter of that resident model, at the path `reference`, and its name is `base:adapter`.
    Without `device`, it is loaded onto the engine's own.
    """

    name: str
    reference: str
    offline: bool = False
    base: str = ""
    device: str | None = None


class UnloadModel(msgspec.Struct, frozen=True, tag=True):
    """Command to end the model's requests and free its memory. Answered by `Unloaded`."""

    name: str


class Abort(msgspec.Struct, frozen=True, tag=True):
    """Command to end a call, or one of its samples by the sample's id."""

    id: str
    reason: FinishReason = FinishReason.CANCELLED


class GetFigures(msgspec.Struct, frozen=True, tag=True):
    """Request for the engine's figures. Answered by `Figures`."""

    id: str


class WatchActivity(msgspec.Struct, frozen=True, tag=True):
    """Command to report the engine's activity until `UnwatchActivity`.

    Answered by an `Activity` with that id, a snapshot, and then by one without an id at every change, at most ten times
    a second.
    """

    id: str


class UnwatchActivity(msgspec.Struct, frozen=True, tag=True):
    """Command to stop the reports, because the last listener has left."""


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """Command to end everything and exit."""


class CallInput(msgspec.Struct, frozen=True):
    """Base of inputs of a call: one method of the task's control, with its arguments as further fields."""

    method: ClassVar[str]
    id: str


@cache
def input_of(method: Callable[..., None]) -> type[CallInput]:
    fields = [(name, kind) for name, kind in get_type_hints(method).items() if name != "return"]
    name = method.__qualname__
    namespace = {"method": method.__name__}
    made = msgspec.defstruct(name, fields, bases=(CallInput,), namespace=namespace, tag=name, frozen=True)
    return cast(type[CallInput], made)


@cache
def inputs_of(control: type) -> dict[str, type[CallInput]]:
    """Return the messages for a control's methods beyond `cancel`, by method."""
    names = [name for name in dir(control) if not name.startswith("_") and not hasattr(CallControl, name)]
    return {name: input_of(getattr(control, name)) for name in names}


Administration = LoadModel | UnloadModel | GetFigures | WatchActivity | UnwatchActivity | Shutdown
ToEngine = TaskRequest | CallInput | Abort | Administration


# -- from the engine ----------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, tag=True):
    """Notice that the engine's process is up and reads commands."""

    pid: int


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """Sign of life, sent about once a second outside of the loop's thread; `busy_seconds` is the current step's age."""

    steps: int
    busy_seconds: float


class DeviceMemory(msgspec.Struct, frozen=True):
    """Device that the engine has opened: bytes for weights and cache together, and those of its cache's arena."""

    name: str
    hardware: str
    total_bytes: int
    budget_bytes: int
    #: 0 until the arena is reserved
    kv_bytes: int


class Devices(msgspec.Struct, frozen=True, tag=True):
    """Devices in use, sent before `Started` and before the answer to a load or unload that changed them."""

    items: list[DeviceMemory]
    #: Devices of models that request none, and of models that request `auto`.
    default: str
    auto: str


class VoiceFields(msgspec.Struct, frozen=True):
    name: str
    language: str
    gender: str | None = None


class Loaded(msgspec.Struct, frozen=True, tag=True):
    name: str
    task: str  # name of a `Task`
    max_tokens: int
    weight_bytes: int
    seconds: dict[str, float]
    forms: str = ""  # forms of the weights, as text
    #: Voices of a speech model, and its default.
    voices: list[VoiceFields] = []
    default_voice: str | None = None
    #: References of the detectors that the model's calls may use.
    companions: list[str] = []
    #: Device on which the model computes.
    device: str = "cpu"


class LoadFailed(msgspec.Struct, frozen=True, tag=True):
    name: str
    kind: str  # class of the error
    message: str


class Unloaded(msgspec.Struct, frozen=True, tag=True):
    name: str


class EventMessage(msgspec.Struct, frozen=True, tag=True):
    """Event of a call, with the name of its class; see `process/channel.py`."""

    id: str
    kind: str
    event: msgspec.Raw


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """Error of a call that was rejected or failed; `kind` is the class of the `AntiphonError`.

    With an empty id, the engine could not be set up, and the process exits.
    """

    id: str
    kind: str
    message: str


class Deltas(msgspec.Struct, frozen=True, tag=True):
    """Text deltas of all requests of a step, in one message."""

    items: list[TextDelta]


class Figures(msgspec.Struct, frozen=True, tag=True):
    """Figures of `FrontEnd.figures`, and resident bytes of the process."""

    id: str
    values: dict[str, Any]


class Activity(msgspec.Struct, frozen=True, tag=True):
    """Activity of the engine as JSON: a snapshot for the listener `id`, or a change for all."""

    id: str
    content: bytes


class Dying(msgspec.Struct, frozen=True, tag=True):
    """Notice that the engine's loop failed; the process exits afterwards."""

    cause: str


#: Events of calls, then answers, then the state of the process.
_Events = Deltas | EventMessage | Rejected
_Answers = Loaded | LoadFailed | Unloaded | Figures | Activity
FromEngine = _Events | _Answers | Devices | Started | Heartbeat | Dying


def _packed(value: Any) -> Any:
    """Encode samples and vectors as their shape and their float32 bytes in native order."""
    if isinstance(value, np.ndarray):
        floats = np.ascontiguousarray(value, np.float32)
        return floats.shape, floats.data
    raise TypeError(f"{type(value).__name__} cannot be sent to another process")


def _unpacked(_: type, value: Any) -> Any:
    shape, data = value
    return np.frombuffer(data, np.float32).reshape(shape)


def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_unpacked)


def command_decoder() -> msgspec.msgpack.Decoder[ToEngine]:
    """Return a decoder of all messages that an engine process accepts, including the currently declared tasks."""
    inputs = {made for task in TASKS for made in inputs_of(task.control).values()}
    return decoder(Union[(*TASKS, *inputs, Abort, Administration)])


encode = msgspec.msgpack.Encoder(enc_hook=_packed).encode
decode_event = msgspec.msgpack.Decoder(FromEngine).decode
