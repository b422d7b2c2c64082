"""`Residency`: resident models under a memory budget, loaded on use and unloaded least recently used first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.counted import counted
from antiphon.device_names import CPU
from antiphon.errors import (
    AntiphonError,
    EngineError,
    LoadCancelledError,
    LoadTimeoutError,
    MemoryBusyError,
    ModelInUseError,
    ModelNotFoundError,
)
from antiphon.runtime.process.client import EngineClient, EngineState
from antiphon.runtime.residency.budget import MemoryBudget, charged_bytes
from antiphon.runtime.residency.daemon_thread import in_daemon_thread
from antiphon.runtime.residency.fetching import FetchLog, fetch_model
from antiphon.runtime.residency.keep_alive import FOREVER
from antiphon.runtime.residency.resident import SLOW_SECONDS, ModelState, Resident

if TYPE_CHECKING:
    from antiphon.runtime.loading.model_text import ModelText
    from antiphon.runtime.process.messages import Loaded

logger = logging.getLogger("antiphon.models")

#: Number of deaths of the engine's process during loads of a model that mark it as failed; fewer are retried at once.
MAX_DEATHS = 2
#: Default timeout in seconds for loading one model, without its download.
LOAD_SECONDS = 1800.0


class Residency:
    """Owner of the resident models, for one event loop.

    It makes room for one model at a time, and does not wait for other models' downloads and loads, which may be stuck.
    A load may take `load_seconds`, without its download, and can be cancelled. Weights and arena together never exceed
    `budget_bytes` on the CPU, and the budget that the engine reports on other devices. A model is not unloaded between
    `acquire` and `release`.
    """

    def __init__(
        self, client: EngineClient, budget_bytes: int, *, offline: bool = False, load_seconds: float = LOAD_SECONDS
    ) -> None:
        self.models: dict[str, Resident] = {}
        self.budget_bytes = budget_bytes
        self._client = client
        client.on_lost = self._lost
        self._offline = offline
        self._load_seconds = load_seconds
        self._lock = asyncio.Lock()
        self._turns = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that the budgets of all devices are charged with."""
        return charged_bytes(self.models.values())

    def charged_bytes(self, device: str) -> int:
        """Return the bytes of weights that a device's budget is charged with."""
        return charged_bytes(self._on(device))

    def budgets(self) -> list[MemoryBudget]:
        """Return the budgets of the devices in use, and always that of the CPU."""
        names = dict.fromkeys([CPU, *(memory.name for memory in self._client.devices)])
        return [budget for name in names if (budget := self.budget(name)) is not None]

    def budget(self, device: str) -> MemoryBudget | None:
        """Return a device's budget; None if the engine has not opened the device yet."""
        memory = self._client.devices.memory(device)
        if device == CPU:
            is_used = memory is not None or not list(self._client.devices)
            return MemoryBudget(self.budget_bytes, self._client.kv_bytes if is_used else 0)
        return None if memory is None else MemoryBudget(memory.budget_bytes, memory.kv_bytes, device)

    def device_of(self, model: Resident) -> str:
        """Return the device of a model, or the device on which it is expected to be loaded."""
        if model.loaded is not None:
            return model.loaded.device
        if model.base is not None:
            return self.device_of(model.base)
        if model.is_companion:
            return CPU
        return self._client.devices.name_of(model.device)

    def _on(self, device: str) -> list[Resident]:
        return [model for model in self.models.values() if model.charged_device == device]

    def add(self, model: Resident) -> Resident:
        return self.models.setdefault(model.name, model)

    def state_of(self, model: Resident) -> ModelState:
        """Return the model's state in the engine process: while that restarts, its models are loading."""
        if model.loading is not None:
            return ModelState.LOADING
        if model.state is not ModelState.READY:
            return model.state
        if self._client.state is EngineState.READY and model.name in self._client.models:
            return ModelState.READY
        return ModelState.LOADING if self._client.state is EngineState.RESTARTING else ModelState.UNLOADED

    # -- use ----------------------------------------------------------------------------------------------------

    async def acquire(self, model: Resident) -> None:
        """Load the model if needed and keep it, with the model of an adapter, resident until `release`.

        Raises the error of the load.
        """
        if model.base is not None:
            await self.acquire(model.base)
        model.uses += 1
        self._stop_timer(model)
        try:
            await self.load(model)
        except BaseException:
            self.release(model)
            raise

    def release(self, model: Resident, keep_alive: float | None = None) -> None:
        """End a use of the model. `keep_alive` overrides the model's setting this time only."""
        model.uses -= 1
        self._touch(model)
        if not model.uses:
            self._start_timer(model, model.keep_alive if keep_alive is None else keep_alive)
            self._forget(model)
        if model.base is not None:
            self.release(model.base, keep_alive)

    def _touch(self, model: Resident) -> None:
        self._turns += 1
        model.turn, model.last_use = self._turns, time.time()

    def _start_timer(self, model: Resident, seconds: float) -> None:
        self._stop_timer(model)
        if model.state is ModelState.READY and seconds != FOREVER:
            model.expires = time.time() + seconds
            model.timer = asyncio.get_running_loop().call_later(seconds, self._expire, model)

    def _stop_timer(self, model: Resident) -> None:
        if model.timer is not None:
            model.timer.cancel()
        model.timer = model.expires = None

    def _expire(self, model: Resident) -> None:
        timer = model.timer

        async def unload_if_idle() -> None:
            async with self._lock:
                if model.timer is timer and not model.uses and model.state is ModelState.READY:
                    await self._unload(model)

        task = asyncio.create_task(unload_if_idle())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- loading ------------------------------------------------------------------------------------------------

    async def load(self, model: Resident, *, evict: bool = True) -> None:
        """Make a model resident; return at once if it is. Concurrent callers share the work.

        Without `evict`, no other model is unloaded for it: it raises `MemoryBusyError` if that would be needed.
        """
        if model.state is ModelState.READY and (
            model.name in self._client.models or self._client.state is not EngineState.READY
        ):
            return
        if model.loading is None:
            model.loading = asyncio.create_task(self._load(model, evict))
            model.loading.add_done_callback(lambda done: self._was_loaded(model, done))
        await asyncio.shield(model.loading)

    def _was_loaded(self, model: Resident, done: asyncio.Task[None]) -> None:
        model.loading = None
        model.fetching = None
        model.loading_since = None
        if not done.cancelled():
            done.exception()  # retrieved, or asyncio would log it; callers that wait raise it
        if model.state is ModelState.READY and not model.uses:
            self._start_timer(model, model.keep_alive)
        self._forget(model)

    async def _load(self, model: Resident, evict: bool) -> None:
        try:
            if model.base is not None:
                await self._load_adapter(model, model.base, evict)
                return
            size = await self._fetch(model)
            await self._load_now(model, size, evict)
        except asyncio.CancelledError:
            model.state = ModelState.UNLOADED
            raise LoadCancelledError(f"loading model {model.name!r} was cancelled") from None
        except (MemoryBusyError, LoadCancelledError):
            model.state = ModelState.UNLOADED
            raise
        except AntiphonError as error:
            if not self._may_be_innocent(model, error):
                self._failed(model, error)
            raise
        except Exception as error:
            logger.exception("model %r could not be loaded", model.name)
            self._failed(model, EngineError(f"an internal error occurred ({type(error).__name__})"))
            raise model.failure from error  # type: ignore[misc]

    async def _load_adapter(self, model: Resident, base: Resident, evict: bool) -> None:
        """Load an adapter after its model, which stays resident meanwhile."""
        from antiphon.runtime.loading.adapter_names import adapter_file_bytes

        base.uses += 1
        self._stop_timer(base)
        try:
            await self.load(base, evict=evict)
            async with self._limited(model):
                size = await in_daemon_thread("antiphon-size", lambda: adapter_file_bytes(Path(model.reference)))
            await self._load_now(model, size, evict)
        finally:
            self.release(base)

    def _may_be_innocent(self, model: Resident, error: AntiphonError) -> bool:
        """Return whether the load failed only because the engine's process died, fewer than MAX_DEATHS times."""
        if not isinstance(error, EngineError) or self._client.state is EngineState.READY:
            return False
        model.num_deaths += 1
        return model.num_deaths < MAX_DEATHS

    def _lost(self, name: str, error: AntiphonError) -> None:
        """Mark a model as failed that a restart of the engine's process failed to load again."""
        model = self.models.get(name)
        if model is None or model.state is not ModelState.READY:
            return
        self._stop_timer(model)
        model.text, model.loaded, model.charged_bytes = None, None, 0
        self._failed(model, EngineError(f"it was lost when the engine restarted: {error}"))
        self._forget(model)

    def _failed(self, model: Resident, error: AntiphonError) -> None:
        model.state, model.failure, model.failed_at = ModelState.FAILED, error, time.monotonic()

    async def _fetch(self, model: Resident) -> int:
        """Fetch the model's files; return the bytes of those with weights."""
        from antiphon.runtime.loading.memory_budget import listed_weight_bytes, weight_file_bytes

        listed = listed_weight_bytes(model.reference)
        if listed is not None:
            budget = self.budget(self.device_of(model))
            if budget is not None:
                budget.check_fits(model, listed)
        resolved = await fetch_model(model.reference, self._offline, FetchLog(model))
        model.fetching = None
        async with self._limited(model):
            return await in_daemon_thread("antiphon-size", lambda: weight_file_bytes(resolved))

    async def _load_now(self, model: Resident, size: int, evict: bool) -> None:
        """Make room, then load. Other models make room and load meanwhile."""
        async with self._lock:
            model.charged_bytes, model.charged_device = 0, self.device_of(model)
            await self._make_room(model, size, evict)
            model.state, model.failure, model.charged_bytes = ModelState.LOADING, None, size
        try:
            async with self._limited(model):
                text, loaded = await self._load_parts(model)
            async with self._lock:
                is_elsewhere = loaded.device != model.charged_device
                model.charged_bytes, model.charged_device = loaded.weight_bytes, loaded.device
                if is_elsewhere or loaded.weight_bytes > size:
                    await self._check_real_size(model, loaded.weight_bytes, evict)
        except BaseException:
            self._client.cancel_load(model.name)
            model.charged_bytes = 0
            model.state = ModelState.UNLOADED
            raise
        model.text, model.loaded, model.state, model.num_deaths = text, loaded, ModelState.READY, 0
        self._touch(model)

    async def _load_parts(self, model: Resident) -> tuple[ModelText, Loaded]:
        """Load the weights in the engine's process and the text side in this one, at the same time."""
        base = "" if model.base is None else model.base.name
        reading = self._read_text(model)
        loading = self._client.load(model.name, model.reference, base, model.device)
        text, loaded = await asyncio.gather(reading, loading, return_exceptions=True)
        if isinstance(text, BaseException):
            await self._drop(model)
            raise text
        if isinstance(loaded, BaseException):
            raise loaded
        return text, loaded

    @contextlib.asynccontextmanager
    async def _limited(self, model: Resident) -> AsyncGenerator[None]:
        """Bound the time of a load, which begins on the first entry, and log a load that may be stuck."""
        if model.loading_since is None:
            model.loading_since = time.monotonic()
        left = self._load_seconds - (model.loading_seconds or 0.0)
        reporting = asyncio.create_task(self._report_slow(model))
        try:
            async with asyncio.timeout(left):
                yield
        except TimeoutError:
            message = f"loading took more than {self._load_seconds:g} s and was cancelled (--load-timeout)"
            raise LoadTimeoutError(message) from None
        finally:
            reporting.cancel()

    async def _report_slow(self, model: Resident) -> None:
        """Log a slow load after 30 s, one minute, two minutes and so on."""
        seconds = SLOW_SECONDS
        while True:
            await asyncio.sleep(max(0.0, seconds - (model.loading_seconds or 0.0)))
            limit = f"it is cancelled after {self._load_seconds:g} s"
            logger.warning("model %r has been loading for %.0f s; %s", model.name, seconds, limit)
            seconds *= 2

    async def _read_text(self, model: Resident) -> ModelText:
        from antiphon.runtime.loading.model_text import ModelText

        if model.base is None:
            return await in_daemon_thread("antiphon-text", lambda: ModelText.load(model.reference, self._offline))
        if model.base.text is None:
            raise EngineError(f"model {model.base.name!r} was unloaded meanwhile")
        return model.base.text

    async def _check_real_size(self, model: Resident, size: int, evict: bool) -> None:
        """Make room again for weights that are larger or elsewhere than expected; unload them if that fails."""
        model.charged_bytes = 0
        try:
            await self._make_room(model, size, evict)
        except AntiphonError:
            await self._drop(model)
            raise
        model.charged_bytes = size

    async def _make_room(self, model: Resident, size: int, evict: bool) -> None:
        """Unload idle models, least recently used first, until `size` bytes fit; none if that would not be enough."""
        device = model.charged_device
        budget = self.budget(device)
        if budget is None:  # not opened yet: the engine checks the room when it opens the device
            return
        for other in budget.idle_models(model, size, self._on(device), evict):
            if self.charged_bytes(device) + size <= budget.room:
                return
            if other.is_idle:  # a request may have arrived while another model was unloaded
                logger.info("unloading model %r to make room for %r", other.name, model.name)
                await self._unload(other)
        if self.charged_bytes(device) + size > budget.room:
            raise MemoryBusyError(f"model {model.name!r} needs {size:,} bytes; other models came into use meanwhile")

    # -- unloading ----------------------------------------------------------------------------------------------

    async def unload(self, model: Resident, *, force: bool = False) -> None:
        """Free a model's memory, or cancel its load.

        A model that requests use or wait for raises `ModelInUseError`; with `force`, its requests are ended.
        """
        if model.loading is not None:
            if model.uses and not force:
                raise ModelInUseError(f"model {model.name!r} is being loaded for {counted(model.uses, 'request')}")
            await self.cancel_load(model)
        async with self._lock:
            if model.uses and not force:
                requests = counted(model.uses, "request")
                raise ModelInUseError(f"model {model.name!r} is used by {requests}")
            if model.state is ModelState.READY:
                await self._unload(model)

    async def cancel_load(self, model: Resident) -> None:
        """Cancel a load that is under way: requests that wait for it receive a `LoadCancelledError`."""
        if model.loading is not None:
            logger.warning("loading model %r is cancelled", model.name)
            model.loading.cancel()
            await asyncio.wait([model.loading])

    async def close(self) -> None:
        """Cancel all loads that are under way; the event loop would report each as an unhandled exception."""
        loads = [model.loading for model in self.models.values() if model.loading is not None]
        for load in loads:
            load.cancel()
        if loads:
            await asyncio.wait(loads)

    async def _unload(self, model: Resident) -> None:
        for adapter in [other for other in self.models.values() if other.base is model]:
            await self.cancel_load(adapter)
            if adapter.state is ModelState.READY:
                await self._unload(adapter)
        model.state, model.text, model.loaded = ModelState.UNLOADING, None, None
        self._stop_timer(model)
        try:
            await self._drop(model)
        finally:
            model.state, model.charged_bytes = ModelState.UNLOADED, 0
            self._forget(model)

    async def _drop(self, model: Resident) -> None:
        with contextlib.suppress(ModelNotFoundError, EngineError):  # the process died, and its memory with it
            await self._client.unload(model.name)

    def _forget(self, model: Resident) -> None:
        gone = model.state in (ModelState.UNLOADED, ModelState.FAILED) and not model.uses and model.loading is None
        if gone and not model.is_configured and self.models.get(model.name) is model:
            del self.models[model.name]
