"""What a server and its engine process say to each other: one small schema, encoded with msgspec."""

from __future__ import annotations

from typing import Any

import msgspec

#: Of one prompt, in one call.
MAX_SAMPLES = 128


class SamplingFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of `SamplingParams`, in types that travel."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    allowed_tokens: list[int] | None = None
    banned_tokens: list[int] = []
    seed: int = 0
    min_tokens: int = 0
    max_tokens: int = 256
    stop: list[str] = []
    stop_tokens: list[int] = []
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: bool = False


class GrammarFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of `GrammarSpec`; exactly one is set."""

    json_schema: str | None = None
    json_object: bool = False
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None


# -- to the engine ------------------------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, tag=True):
    """Make a model resident under a name. Answered by `Loaded` or `LoadFailed`."""

    name: str
    reference: str
    offline: bool = False


class Unload(msgspec.Struct, frozen=True, tag=True):
    """End the model's requests and give its memory back. Answered by `Unloaded`."""

    name: str


class Generate(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """`n` samples of a prompt, with ids `id/0` to `id/n-1`. Answered by `Refused` or `Accepted`; `Deltas`; `Ended`."""

    id: str
    model: str
    prompt: list[int]
    params: SamplingFields
    n: int = 1
    priority: int = 2
    timeout: float | None = None
    grammar: GrammarFields | None = None
    cache_salt: str = ""


class Embed(msgspec.Struct, frozen=True, tag=True):
    """One vector per input of token ids. Answered by `Refused` or `Embedded`."""

    id: str
    model: str
    inputs: list[list[int]]
    priority: int = 2


class Abort(msgspec.Struct, frozen=True, tag=True):
    """End every sample of a generate, or an embed. The ids of single samples are understood as well."""

    id: str
    reason: str = "cancelled"


class AskFigures(msgspec.Struct, frozen=True, tag=True):
    """Answered by `Figures`."""

    id: str


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """End everything and exit."""


ToEngine = Load | Unload | Generate | Embed | Abort | AskFigures | Shutdown


# -- from the engine ----------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, tag=True):
    """The engine's process is up and reads commands."""

    pid: int


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """Sent about once a second by a thread that is not the loop; `busy_seconds` is how long the present step runs."""

    steps: int
    busy_seconds: float


class Loaded(msgspec.Struct, frozen=True, tag=True):
    name: str
    task: str  # "generate" or "embed"
    max_tokens: int
    weight_bytes: int
    seconds: dict[str, float]
    forms: str  # what the weights became, for people


class LoadFailed(msgspec.Struct, frozen=True, tag=True):
    name: str
    kind: str  # the error's class
    message: str


class Unloaded(msgspec.Struct, frozen=True, tag=True):
    name: str


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """A generate was taken: it waits or runs. Comes before its first delta."""

    id: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A request that was not taken, or an embed that failed; `kind` is the class of the `AntiphonError`.

    With an empty id: the engine could not be set up, and the process exits.
    """

    id: str
    kind: str
    message: str


class TextDelta(msgspec.Struct, frozen=True, array_like=True):
    """What one sample gained in a step."""

    id: str
    text: str
    token_ids: list[int]
    logprobs: list[float] = []
    top_logprobs: list[list[tuple[int, float]]] = []


class Deltas(msgspec.Struct, frozen=True, tag=True):
    """All that a step gave, in one message."""

    items: list[TextDelta]


class Ended(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The end of one sample, after its last delta."""

    id: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    error: str | None = None
    queue: float = 0.0
    time_to_first_token: float = 0.0
    time_per_output_token: float = 0.0
    total: float = 0.0
    prompt_logprobs: list[float] = []
    prompt_top_logprobs: list[list[tuple[int, float]]] = []


class Embedded(msgspec.Struct, frozen=True, tag=True):
    """`vectors` are float32 in native byte order, one row per input."""

    id: str
    vectors: bytes
    width: int
    prompt_tokens: int


class Figures(msgspec.Struct, frozen=True, tag=True):
    """What `EngineBase.figures` tells, and resident bytes of the process."""

    id: str
    values: dict[str, Any]


class Dying(msgspec.Struct, frozen=True, tag=True):
    """The engine's loop broke; the process exits after this."""

    cause: str


FromEngine = (
    Started
    | Heartbeat
    | Loaded
    | LoadFailed
    | Unloaded
    | Accepted
    | Refused
    | Deltas
    | Ended
    | Embedded
    | Figures
    | Dying
)

encode = msgspec.msgpack.Encoder().encode
decode_command = msgspec.msgpack.Decoder(ToEngine).decode
decode_event = msgspec.msgpack.Decoder(FromEngine).decode
