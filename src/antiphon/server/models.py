"""The models that a server holds: their names, whether they are ready, and what their text side needs."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.client import EngineState
from antiphon.server.config import ModelSpec, ServerConfig
from antiphon.server.errors import ApiError, invalid, unavailable
from antiphon.server.logs import log_failure
from antiphon.weights.catalog import catalog

if TYPE_CHECKING:
    from antiphon.runtime.client import EngineClient
    from antiphon.runtime.messages import Loaded
    from antiphon.runtime.model_text import ModelText

#: Names that always lead to the first model of a task.
ALIASES = {"default-chat": "generate", "default-embedding": "embed"}
TASK_NAMES = {"generate": "text generation", "embed": "embeddings"}


@dataclass
class ServedModel:
    """A model from the moment it is asked for. `text` and `loaded` are there once it is ready."""

    spec: ModelSpec
    created: int = field(default_factory=lambda: int(time.time()))
    text: ModelText | None = None
    loaded: Loaded | None = None
    error: str | None = None
    loading: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def state(self) -> str:
        if self.error is not None:
            return "failed"
        return "ready" if self.loaded is not None and self.text is not None else "loading"

    @property
    def task(self) -> str | None:
        """What it is for, as far as is known before it is loaded."""
        if self.loaded is not None:
            return self.loaded.task
        entry = catalog().get(self.spec.reference.lower())
        return None if entry is None else "embed" if entry.task == "embedding" else "generate"

    def card(self, name: str) -> dict[str, Any]:
        loaded = self.loaded
        return {
            "id": name,
            "object": "model",
            "created": self.created,
            "owned_by": "antiphon",
            "root": self.name,
            "state": self.state,
            "task": self.task,
            "max_model_len": None if loaded is None else loaded.max_tokens,
            "weight_bytes": None if loaded is None else loaded.weight_bytes,
            "error": self.error,
        }


@dataclass(frozen=True)
class ReadyModel:
    """What a handler works with."""

    name: str
    text: ModelText
    max_tokens: int


class ServedModels:
    """Used from the server's event loop. Models load behind it; a request for one that is not ready is told so."""

    def __init__(self, config: ServerConfig, client: EngineClient) -> None:
        self._config = config
        self._client = client
        self._models = {spec.name: ServedModel(spec) for spec in config.models}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    async def load_all(self, report: Callable[[ServedModel], None] | None = None) -> None:
        """Load what the configuration names, in order; one that fails does not keep the others out."""
        for model in list(self._models.values()):
            await self._load(model)
            if report is not None:
                report(model)

    def _load(self, model: ServedModel) -> asyncio.Task[None]:
        if model.loading is None:
            model.loading = asyncio.create_task(self._load_now(model))
        return model.loading

    async def _load_now(self, model: ServedModel) -> None:
        """The weights in the engine's process and the text side in this one, at the same time."""
        from antiphon.runtime.model_text import ModelText

        try:
            reading = asyncio.to_thread(ModelText.load, model.spec.reference, self._config.offline)
            loading = self._client.load(model.name, model.spec.reference)
            model.text, model.loaded = await asyncio.gather(reading, loading)
        except AntiphonError as error:
            model.error = str(error)
        except Exception as error:  # a fault of ours: told like any other, so that nobody waits for ever
            model.error = f"an internal error occurred ({type(error).__name__})"
            log_failure(error, model=model.name)

    @property
    def is_ready(self) -> bool:
        return all(model.state == "ready" for model in self._models.values())

    def names(self) -> dict[str, ServedModel]:
        """Every name that leads to a model, aliases included."""
        names = dict(self._models)
        for alias, task in ALIASES.items():
            found = next((model for model in self._models.values() if model.task == task), None)
            if found is not None:
                names.setdefault(alias, found)
        return names

    def find(self, name: str) -> ServedModel:
        """The model of that name; an unknown one is refused with the names nearest to it."""
        names = self.names()
        if name in names:
            return names[name]
        known = [*names, *(catalog() if self._config.allow_load else ())]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names) or 'none'}"
        message = f"no model is called {name[:200]!r} here: {hint}"
        raise ApiError(404, message, code="model_not_found", param="model")

    async def ready(self, name: str, task: str | None = None) -> ReadyModel:
        """The model, usable now; the error that tells why not otherwise."""
        if self._config.allow_load and name not in self.names() and name in catalog():
            self._models[name] = ServedModel(ModelSpec.of(name))
            await asyncio.shield(self._load(self._models[name]))
        model = self.find(name)
        if model.error is not None:
            raise unavailable(f"model {model.name!r} failed to load: {model.error}", "model_load_failed", 30)
        if self._client.state is not EngineState.READY:
            raise engine_unavailable(self._client)
        if model.loaded is None or model.text is None:
            raise unavailable(f"model {model.name!r} is still loading", "model_loading")
        if task is not None and model.loaded.task != task:
            own = TASK_NAMES.get(model.loaded.task, model.loaded.task)
            message = f"model {model.name!r} is for {own}, not for {TASK_NAMES[task]}"
            raise invalid(message, "model", "unsupported_model")
        return ReadyModel(model.name, model.text, model.loaded.max_tokens)


def engine_unavailable(client: EngineClient) -> ApiError:
    """Why the engine takes no requests now."""
    cause = f": {client.cause}" if client.cause else ""
    return unavailable(f"the engine is {client.state}{cause}", f"engine_{client.state}")


def engine_failure(client: EngineClient, error: EngineError) -> ApiError:
    """An engine that died is unavailable, and the request may be sent again; any other failure is the request's own."""
    if client.state is not EngineState.READY:
        return unavailable(f"the engine is {client.state}: {error}", f"engine_{client.state}")
    return ApiError(500, str(error), code="engine_error", kind="server_error")
