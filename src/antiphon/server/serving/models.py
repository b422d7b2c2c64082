"""`ServedModels`: the models of a server, their names and aliases, and which of them a request may load."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from antiphon.errors import (
    AntiphonError,
    EngineError,
    FetchError,
    InvalidRequestError,
    LoadTimeoutError,
    MemoryBudgetError,
    MemoryBusyError,
)
from antiphon.runtime.loading.adapter_names import adapter_model_name
from antiphon.runtime.loading.memory_budget import default_budget
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.residency import Residency
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.serving.failures import LOAD_FAILED, engine_unavailable, load_failure
from antiphon.server.serving.model_card import task_of
from antiphon.server.serving.model_names import adapters_named, named, untagged
from antiphon.server.serving.setup.config import DEFAULT_ALIASES, DEFAULT_SOUND_MODELS, LoadOnUse, ServerConfig
from antiphon.server.serving.setup.openai_names import OPENAI_NAMES, without_version
from antiphon.server.web.http.context import current_context
from antiphon.server.web.http.errors import ApiError, invalid, unavailable
from antiphon.server.web.telemetry.logs import log
from antiphon.weights.catalog.catalog import catalog, near_names
from antiphon.weights.catalog.defaults import DEFAULT_MODELS
from antiphon.weights.catalog.hub_models import HUB_REFERENCE
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS, KINDS, models_for

if TYPE_CHECKING:
    from antiphon.runtime.loading.model_text import ModelText
    from antiphon.runtime.process.client import EngineClient
    from antiphon.runtime.process.messages import Loaded


#: Load failures that may pass without intervention.
TRANSIENT = (EngineError, FetchError, LoadTimeoutError)
RETRY_POLL_SECONDS = 5.0


@dataclass(frozen=True)
class ReadyModel:
    name: str
    text: ModelText
    max_tokens: int
    loaded: Loaded


class ServedModels:
    """Models of a server, on its event loop. A request loads its model if necessary, and keeps it until its end."""

    def __init__(self, config: ServerConfig, client: EngineClient) -> None:
        self._config = config
        self._client = client
        budget = default_budget() - config.limits.held_bytes if config.memory_bytes is None else config.memory_bytes
        self.residency = Residency(client, budget, offline=config.offline, load_seconds=config.limits.load_seconds)
        self._preloaded: list[Resident] = []
        self._was_ready: set[str] = set()
        self._start_loads = asyncio.Condition()  # notified when a model's load at start has ended
        for spec in config.models:
            model = self.residency.add(
                Resident(spec.name, spec.reference, spec.keep_alive, spec.is_pinned, device=spec.device)
            )
            if spec.is_preloaded:
                model.state = ModelState.LOADING
                self._preloaded.append(model)
        for name in config.aliases.values():
            self.residency.add(Resident(name, name, config.keep_alive))
        #: Default models, loaded on use for tasks without a configured model.
        self._defaults = {name: self._on_use(name) for name in DEFAULT_MODELS.values()}
        for adapter in config.adapters:
            model = self.add_adapter(adapter.base, adapter.name, adapter.path)
            if model.base in self._preloaded:
                model.state = ModelState.LOADING
                self._preloaded.append(model)

    def __iter__(self) -> Iterator[Resident]:
        return iter(list(self.residency.models.values()))

    async def load_all(self, report: Callable[[Resident], None] | None = None) -> None:
        """Load the models to be loaded at start, in order. A model that fails does not stop the others."""
        for model in self._preloaded:
            while await self._died_under(model):
                pass
            self._was_ready.add(model.name)
            async with self._start_loads:
                self._start_loads.notify_all()
            if report is not None:
                report(model)

    async def keep_loaded(self) -> None:
        """Retry start-up loads that failed for a transient cause. Never returns."""
        while True:
            for model in self._failed:
                if isinstance(model.failure, TRANSIENT) and model.may_be_tried_again:
                    await self._died_under(model)
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_POLL_SECONDS):
                    await self._client.wait_for_change()

    async def started(self, model: Resident) -> None:
        """Wait until the model's load at the server's start has ended, well or badly; return at once without one."""
        async with self._start_loads:
            await self._start_loads.wait_for(lambda: not self._is_starting(model))

    def _is_starting(self, model: Resident) -> bool:
        return model in self._preloaded and model.name not in self._was_ready and model.state is not ModelState.READY

    async def _died_under(self, model: Resident) -> bool:
        """Load a model. Return True if the engine process died meanwhile and the load may be retried at once."""
        try:
            await self.residency.load(model, evict=False)
        except MemoryBusyError as error:
            log("no memory left for a model; it is loaded on first use", model=model.name, cause=str(error))
        except AntiphonError as error:
            log("model failed to load", logging.ERROR, model=model.name, cause=str(error))
            return isinstance(error, EngineError) and model.state is ModelState.UNLOADED
        return False

    @property
    def is_ready(self) -> bool:
        """Whether every model to be loaded at start has been loaded, or is left for its first use."""
        return all(m.name in self._was_ready and m.state is not ModelState.FAILED for m in self._preloaded)

    @property
    def status(self) -> str:
        """Readiness: `ready`, `loading` or `failed`."""
        if self.is_ready:
            return "ready"
        return "failed" if self._failed else "loading"

    @property
    def cause(self) -> str | None:
        """Names of the start-up models that failed to load, as text; None if none failed."""
        names = ", ".join(model.name for model in self._failed)
        return f"failed to load: {names}" if names else None

    @property
    def never_fits(self) -> AntiphonError | None:
        """Failure of the first start-up model if none of them can ever fit in the memory budget; otherwise None."""
        failures = [model.failure for model in self._preloaded if model.name in self._was_ready]
        hopeless = len(failures) == len(self._preloaded) and all(isinstance(f, MemoryBudgetError) for f in failures)
        return failures[0] if failures and hopeless else None

    @property
    def _failed(self) -> list[Resident]:
        return [model for model in self._preloaded if model.state is ModelState.FAILED]

    def describe(self, model: Resident) -> str:
        """Describe a model's state in a few words."""
        if model.error is not None:
            return f"failed: {model.error}"
        if model.fetching is not None:
            return f"{model.fetching.activity} ({model.fetching.done / 1e6:.0f} of {model.fetching.total / 1e6:.0f} MB)"
        if model.is_slow:
            return f"loading for {model.loading_seconds:.0f} s"
        return str(self.residency.state_of(model))

    @property
    def warnings(self) -> list[str]:
        """Readiness warnings about loads that may be stuck. Other models still load meanwhile."""
        limit = self._config.limits.load_seconds
        return [
            f"model {model.name!r} has been loading for {model.loading_seconds:.0f} s of at most {limit:g} s"
            for model in self
            if model.is_slow
        ]

    # -- names --------------------------------------------------------------------------------------------------

    def names(self) -> dict[str, Resident]:
        """Return every model that a request can name, by name and alias."""
        names = {name: model for name, model in self.residency.models.items() if not model.is_companion}
        for alias, name in self._config.aliases.items():
            names[alias] = self.residency.models[name]
        by_default = DEFAULT_ALIASES | (OPENAI_NAMES if self._config.has_openai_names else {})
        by_task = {task: self._first_of(task) for task in dict.fromkeys(by_default.values())}
        for alias, task in by_default.items():
            found = by_task[task]
            if found is not None:
                names.setdefault(alias, found)
        return names

    def _first_of(self, task: str) -> Resident | None:
        """Return the first configured model of a task, else its default if that may be loaded, else a loaded one."""
        models = self.residency.models
        of_task = [model for model in models.values() if model.base is None and task_of(model) == task]
        configured = next((model for model in of_task if model.is_configured), None)
        if configured is not None:
            return configured
        default = DEFAULT_SOUND_MODELS.get(task)
        if default is not None and (default in models or self._config.load_on_use is not LoadOnUse.CONFIGURED):
            return models.get(default, self._defaults[default])
        return next((model for model in of_task if model.state is ModelState.READY), None)

    def offered(self) -> list[Resident]:
        """Return the models that a user may choose from: configured ones, then defaults, then others that are loaded.

        The default model of a task is offered if no model is configured for the task and a request may load it.
        """
        known = [model for model in self if not model.is_companion]
        configured = [model for model in known if model.is_configured]
        tasks = {task_of(model) for model in configured}
        if None in tasks:
            tasks.add("generate")  # a model with an unknown task is probably a language model
        absent = [name for task, name in DEFAULT_MODELS.items() if task not in tasks]
        may_load = self._config.load_on_use is not LoadOnUse.CONFIGURED
        defaults = [self.residency.models.get(name, self._defaults[name]) for name in absent] if may_load else []
        return list(dict.fromkeys([*configured, *defaults, *known]))

    def _on_use(self, name: str) -> Resident:
        return Resident(name, name, self._config.keep_alive, is_configured=False)

    def aliases(self, model: Resident) -> list[str]:
        return [name for name, led_to in self.names().items() if led_to is model and name != model.name]

    def companion(self, name: str) -> Resident | None:
        """Return the detector with this name, or None unless it is loaded or being loaded."""
        model = self.residency.models.get(name)
        return model if model is not None and model.is_companion else None

    def add_adapter(self, base_name: str, name: str, path: str) -> Resident:
        """Register an adapter, to be loaded on use. Raise 409 if its name is in use with another path."""
        base = self.known(base_name)
        if base.base is not None:
            raise invalid(f"model {base.name!r} is an adapter itself", "model", "invalid_value")
        try:
            full = adapter_model_name(base.name, name)
        except InvalidRequestError as error:
            raise invalid(str(error), "model", "invalid_value") from error
        known = self.residency.models.get(full)
        if known is not None and known.reference != path:
            if known.state is ModelState.READY or known.uses or known.loading is not None:
                message = f"adapter {full!r} is loaded from another path; unload it first"
                raise ApiError(409, message, code="model_in_use", param="adapter")
            del self.residency.models[full]
        base.is_configured = True  # its adapters refer to it
        return self.residency.add(Resident(full, path, base.keep_alive, base=base))

    def forget_adapter(self, model: Resident) -> None:
        """Unregister an adapter that is unloaded and unused, unless the configuration names it."""
        own = {adapter_model_name(adapter.base, adapter.name) for adapter in self._config.adapters}
        gone = model.state in (ModelState.UNLOADED, ModelState.FAILED)
        if model.base is not None and model.name not in own and not model.uses and gone:
            self.residency.models.pop(model.name, None)

    def named(self, name: str) -> Resident | None:
        """Return the model that a request means by this name, or None if the server does not have it."""
        return self._named(name, self.names())

    def _named(self, name: str, names: dict[str, Resident]) -> Resident | None:
        """Return the model with this name or alias, or the only adapter with this name; otherwise None."""
        found = named(name, names)
        if found is None and self._config.has_openai_names:
            found = named(without_version(untagged(name)), names)
        if found is not None or untagged(name).lower() in self.catalog_names():
            return found
        adapters = adapters_named(name, names)
        return adapters[0] if len(adapters) == 1 else None

    def find(self, name: str, task: str | None = None) -> Resident:
        """Return the model with this name. Raise a 404 that suggests the closest names of the task if it is unknown."""
        names = self.names()
        found = self._named(name, names)
        if found is not None:
            return found
        if untagged(name).lower() in self.catalog_names():
            raise ApiError(404, f"model {name!r} is not loaded", code="model_not_found", param="model")
        served = [known for known, model in names.items() if task is None or task_of(model) in (task, None)]
        on_use = self._config.load_on_use is not LoadOnUse.CONFIGURED
        known = [*served, *(self.catalog_names() if task is None else models_for(task))] if on_use else served
        near = [adapter.name for adapter in adapters_named(name, names)] or near_names(name, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"available: {', '.join(served) or 'none'}"
        message = f"there is no model {name[:200]!r}: {hint}"
        raise ApiError(404, message, code="model_not_found", param="model")

    def catalog_names(self) -> list[str]:
        """Return the names of catalog models that can be served."""
        return [name for name, entry in catalog().items() if entry.task in CATALOG_TASKS]

    def known(self, name: str, allowed: LoadOnUse | None = None, task: str | None = None) -> Resident:
        """Return the model like `find`, also one that may be loaded on use. Paths are never accepted."""
        allowed = self._config.load_on_use if allowed is None else allowed
        found = self.named(name)
        if found is not None:
            return self.residency.add(found)
        lower = untagged(name).lower()
        if allowed is not LoadOnUse.CONFIGURED and lower in self.catalog_names():
            name = lower
        elif allowed is not LoadOnUse.HUB or HUB_REFERENCE.fullmatch(name) is None:
            return self.find(name, task)
        return self.residency.add(self._defaults.get(name) or self._on_use(name))

    def only_one_for(self, task: str | None) -> Resident:
        """Return the model for a request that names none: the only one configured for the task, or its default."""
        bases = [model for model in self if model.base is None]  # a request must name an adapter
        configured = [model for model in bases if model.is_configured and not model.is_companion]
        fitting = [model for model in configured if task is None or task_of(model) in (task, None)]
        if len(fitting) > 1 and task is not None:  # prefer models whose task is known before loading
            fitting = [model for model in fitting if task_of(model) == task] or fitting
        default = None if fitting or task is None else self._first_of(task)
        if default is not None:
            return self.residency.add(default)
        if len(fitting) == 1:
            return fitting[0]
        names = ", ".join(model.name for model in fitting)
        found = f"several fit ({names}); name one" if names else "no model of this server fits; name one"
        raise invalid(f"model is missing, and {found}", "model", "missing_required_parameter")

    # -- use ----------------------------------------------------------------------------------------------------

    async def ready(self, name: str | None, task: str | None = None) -> ReadyModel:
        """Return the model, loaded if necessary and kept until the current request ends.

        Without a name, use the only model that fits the task. Raise `ApiError` if the model cannot be loaded or has
        another task.
        """
        model = self.only_one_for(task) if name is None else self.known(name, task=task)
        if model.failure is not None and not model.may_be_tried_again:
            raise load_failure(model, model.failure)
        if self._client.state is not EngineState.READY:
            raise engine_unavailable(self._client)
        if self._is_starting(model):
            raise unavailable(f"model {model.name!r} is still loading", "model_loading")
        self._check_task(model, task)
        await self._lease(model)
        self._check_task(model, task)
        if model.loaded is None or model.text is None:  # unloaded by force while this request waited
            raise unavailable(f"model {model.name!r} is {model.state}", "model_unloaded")
        return ReadyModel(model.name, model.text, model.loaded.max_tokens, model.loaded)

    async def acquire_companions(self, model: ReadyModel, *others: str) -> None:
        """Load the detectors that a call to the model uses, and others, and keep them until the current request ends.

        Raise `ApiError` if memory or the engine is not available. Other load failures are left to the engine, which
        first checks the call itself and then reports why it cannot load the detector.
        """
        for name in (*model.loaded.companions, *others):
            try:
                await self.acquire_detector(name)
            except ApiError as error:
                if error.code != LOAD_FAILED:
                    raise
                log("a detector failed to load", logging.WARNING, model=name, cause=error.message)

    async def acquire_detector(self, name: str) -> None:
        """Load a detector and keep it until the current request ends. Raise `ApiError` if loading fails."""
        detector = Resident(name, name, self._config.keep_alive, is_configured=False, is_companion=True)
        await self._lease(self.residency.add(detector))

    async def _lease(self, model: Resident) -> None:
        context = current_context.get()
        try:
            await self.residency.acquire(model)
        except EngineError as error:
            if self._client.state is not EngineState.READY:
                raise engine_unavailable(self._client) from error
            raise load_failure(model, error) from error
        except AntiphonError as error:
            raise load_failure(model, error) from error
        if context is None or context.is_over:
            self.residency.release(model)
        else:
            context.at_end.append(lambda: self.residency.release(model, context.keep_alive))

    def _check_task(self, model: Resident, task: str | None) -> None:
        own = task_of(model)
        if task is not None and own is not None and own != task:
            fitting = [name for name, other in self.names().items() if task_of(other) == task]
            if self._config.load_on_use is not LoadOnUse.CONFIGURED:
                fitting += models_for(task)
            such = f", such as {' or '.join(dict.fromkeys(fitting))}" if fitting else ""
            message = f"model {model.name!r} is {KINDS.get(own, own)}; this request needs {KINDS[task]}{such}"
            raise invalid(message, "model", "unsupported_model")
