"""`ServerConfig`: what a server serves, to whom, and how much it takes in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from antiphon.errors import InvalidRequestError
from antiphon.server.keys import KeyRing

DEFAULT_MODELS = ("qwen2.5-coder-0.5b", "all-minilm-l6-v2")


@dataclass(frozen=True)
class Limits:
    """The most that one request may ask for. `prompt_tokens` and `output_tokens` of None leave it to the model."""

    body_bytes: int = 8 << 20
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


@dataclass(frozen=True)
class ModelSpec:
    """A model that the server is asked to hold: the name clients use, and where it comes from."""

    name: str
    reference: str

    @classmethod
    def of(cls, reference: str) -> ModelSpec:
        """Catalog names and hub references are their own names; a file or folder goes by its last part."""
        if reference.startswith("hub:") or "/" not in reference:
            path = Path(reference)
            return cls(path.stem if path.is_file() else reference, reference)
        path = Path(reference).expanduser()
        return cls(path.stem if path.is_file() else path.resolve().name, reference)


@dataclass(frozen=True)
class ServerConfig:
    """Checked on creation. With `allow_load`, a catalog model is loaded when a request first names it."""

    models: tuple[ModelSpec, ...] = tuple(ModelSpec.of(name) for name in DEFAULT_MODELS)
    keys: KeyRing | None = None
    allow_load: bool = False
    offline: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidRequestError(f"two models would be called {twice[0]!r}: rename a file or folder")
