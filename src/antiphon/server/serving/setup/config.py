"""`ServerConfig`: what a server serves, to whom, and within which limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from antiphon.errors import InvalidRequestError
from antiphon.runtime.loading.adapter_names import adapter_model_name
from antiphon.server.serving.setup.openai_names import SOUND_NAMES
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import ConnectionLimits, SessionLimits
from antiphon.weights.catalog.catalog import catalog, near_names
from antiphon.weights.catalog.defaults import CHAT_MODEL, DEFAULT_MODELS, EMBEDDING_MODEL

#: Task by default alias of its first model: our own aliases, and OpenAI's names of sound models.
DEFAULT_ALIASES = {
    "default-chat": "generate",
    "default-embedding": "embed",
    "default-transcription": "transcribe",
    "default-speech": "synthesize",
    **SOUND_NAMES,
}
#: Model by task, if none is configured for the task and catalog models may be loaded on use.
DEFAULT_SOUND_MODELS = {task: DEFAULT_MODELS[task] for task in ("transcribe", "synthesize")}


class LoadOnUse(StrEnum):
    """Models that a request may load: configured ones only, the catalog's too, or any on the hub. Never a path."""

    CONFIGURED = "configured"
    CATALOG = "catalog"
    HUB = "hub"


@dataclass(frozen=True)
class Limits:
    """Limits of requests and of stored data. Without a number of tokens, the model's own limit applies."""

    body_bytes: int = 8 << 20
    #: Bytes of large bodies, over all requests in flight.
    held_bytes: int = 64 << 20
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    #: Prompts times `n` of one request.
    choices: int = 64
    embedding_inputs: int = 2048
    stop_strings: int = 16
    stop_characters: int = 1024
    logit_bias: int = 1024
    tools: int = 128
    request_seconds: float = 600.0
    #: Seconds for loading one model, without its download.
    load_seconds: float = 1800.0
    #: Responses stored for previous_response_id, and their bytes.
    stored_responses: int = 1024
    stored_bytes: int = 64 << 20
    #: Maximum size and duration of a recording.
    audio_bytes: int = 512 << 20
    audio_seconds: float = 4 * 3600.0
    speech_characters: int = 200_000
    #: Stored files of one API key, their total bytes, and the bytes of one file.
    files: int = 1000
    files_bytes: int = 2 << 30
    file_bytes: int = 200 << 20
    #: Requests of one batch, and requests of all batches that run at once.
    batch_requests: int = 50_000
    batch_concurrency: int = 8
    #: Background transcriptions: of one API key, waiting or running; of all keys, running at once; and the seconds that
    #: results are kept.
    background: int = 64
    background_concurrency: int = 4
    background_kept: float = 86_400.0
    #: Requests in flight with one API key; None for no limit.
    requests_per_key: int | None = None
    sessions: SessionLimits = field(default_factory=SessionLimits)


@dataclass(frozen=True)
class ModelSpec:
    """Configured model: the name clients use, and its source.

    `keep_alive` is the number of seconds that the model stays loaded after its last use. A pinned model is never
    unloaded to make room.
    """

    name: str
    reference: str
    keep_alive: float = math.inf
    is_pinned: bool = False
    #: Whether the model is loaded when the server starts, rather than on its first use.
    is_preloaded: bool = True
    #: Device to compute on; None for the engine's own.
    device: str | None = None

    @classmethod
    def of(cls, reference: str) -> ModelSpec:
        """Build a spec named after the reference: all of a catalog or hub reference, or the last part of a path."""
        return cls(name_of(reference), reference)


@dataclass(frozen=True)
class AdapterSpec:
    """Configured LoRA adapter; clients name it `base:name`."""

    base: str
    name: str
    path: str


def name_of(reference: str) -> str:
    if reference.startswith("hub:") or "/" not in reference:
        path = Path(reference)
        return path.stem if path.is_file() else reference
    path = Path(reference).expanduser()
    return path.stem if path.is_file() else path.resolve().name


@dataclass(frozen=True)
class ServerConfig:
    """Configuration of a server, checked on creation.

    `memory_bytes` bounds weights and cache together; None means most of the machine's memory. `aliases` are other names
    of models; a model that is not among `models` is loaded on first use. `voice_aliases` are other names of voices or
    mixtures, in addition to `DEFAULT_VOICE_ALIASES`.
    """

    models: tuple[ModelSpec, ...] = tuple(ModelSpec.of(name) for name in (CHAT_MODEL, EMBEDDING_MODEL))
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Whether OpenAI's names of models lead to the first model of their task.
    has_openai_names: bool = False
    adapters: tuple[AdapterSpec, ...] = ()
    voice_aliases: Mapping[str, str] = field(default_factory=dict)
    keys: KeyRing | None = None
    admin_keys: KeyRing | None = None
    #: Address that the server listens on.
    host: str = "127.0.0.1"
    #: Further host names that clients may use for the server; `*` for any.
    allowed_hosts: tuple[str, ...] = ()
    load_on_use: LoadOnUse = LoadOnUse.CATALOG
    #: Seconds that a model loaded by a request stays loaded after its last use.
    keep_alive: float = math.inf
    memory_bytes: int | None = None
    offline: bool = False
    logs_text: bool = False
    #: Whether to reject unknown fields of requests instead of ignoring them.
    is_strict: bool = False
    cors_origins: tuple[str, ...] = ()
    #: URL of the collector of traces; None to record none.
    otlp_endpoint: str | None = None
    #: Folder for files and batches; None to offer neither.
    files_dir: Path | None = None
    limits: Limits = field(default_factory=Limits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidRequestError(f"two models would be called {twice[0]!r}: rename a file or folder")
        for alias, name in self.aliases.items():
            if alias in names or alias in catalog():
                raise InvalidRequestError(f"the alias {alias!r} is the name of a model")
            if name not in names and name.lower() not in catalog() and not name.startswith("hub:"):
                near = near_names(name, [*names, *catalog()])
                hint = f": did you mean {' or '.join(near)}?" if near else ""
                raise InvalidRequestError(f"the alias {alias!r} leads to {name!r}, which is not a known model{hint}")
        for adapter in self.adapters:
            if adapter.base not in names:
                raise InvalidRequestError(
                    f"the adapter {adapter.name!r} is for {adapter.base!r}; the models are {', '.join(names)}"
                )
            adapter_model_name(adapter.base, adapter.name)
        if self.keys is not None and self.admin_keys is not None and self.keys.shares_a_key_with(self.admin_keys):
            raise InvalidRequestError("an admin key is also an API key: administration needs keys of its own")
