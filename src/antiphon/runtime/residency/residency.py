"""`Residency`: which models are resident under one memory budget. Loads on use, unloads the least recently used."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from antiphon.counted import counted
from antiphon.errors import (
    AntiphonError,
    EngineError,
    MemoryBudgetError,
    MemoryBusyError,
    ModelInUseError,
    ModelNotFoundError,
)
from antiphon.runtime.process.client import EngineClient, EngineState
from antiphon.runtime.residency.keep_alive import FOREVER

if TYPE_CHECKING:
    from antiphon.runtime.loading.model_text import ModelText
    from antiphon.runtime.process.messages import Loaded
    from antiphon.weights.catalog.fetch import FetchProgress
    from antiphon.weights.catalog.resolve import ResolvedModel

logger = logging.getLogger("antiphon.models")

#: A model that failed to load is not tried again sooner.
RETRY_SECONDS = 30.0
FETCH_LOG_SECONDS = 5.0
#: How often a load is tried when the engine's process dies under it.
ATTEMPTS = 2


class ModelState(StrEnum):
    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"
    FAILED = "failed"


@dataclass(eq=False)
class Resident:
    """A model that is, was or may be resident. `text` and `loaded` are there while it is READY.

    `keep_alive` is how many seconds it stays after its last use; a pinned one is never unloaded to make room.
    """

    name: str
    reference: str
    keep_alive: float = FOREVER
    is_pinned: bool = False
    #: Named in the configuration; another is forgotten when it is unloaded.
    is_configured: bool = True
    #: A detector that calls to other models use. No request can name it.
    is_companion: bool = False
    state: ModelState = ModelState.UNLOADED
    created: int = field(default_factory=lambda: int(time.time()))
    text: ModelText | None = None
    loaded: Loaded | None = None
    failure: AntiphonError | None = None
    failed_at: float = 0.0
    fetching: FetchProgress | None = None
    #: Requests that use it or wait for it.
    uses: int = 0
    last_use: float | None = None
    #: Bytes of its weights that the budget is charged with.
    charged_bytes: int = 0
    #: When it is unloaded if nobody uses it, by the wall clock.
    expires: float | None = None
    loading: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    turn: int = 0

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)

    @property
    def may_be_tried_again(self) -> bool:
        return self.failure is None or time.monotonic() - self.failed_at >= RETRY_SECONDS


class Residency:
    """Used from one event loop. Loads and unloads are done one at a time; fetches are not waited for by others.

    Weights and the cache's arena together never exceed `budget_bytes`. Whoever uses a model calls `acquire` and then
    `release`; between the two it is not unloaded.
    """

    def __init__(self, client: EngineClient, budget_bytes: int, *, offline: bool = False) -> None:
        self.models: dict[str, Resident] = {}
        self.budget_bytes = budget_bytes
        self._client = client
        self._offline = offline
        self._lock = asyncio.Lock()
        self._turns = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def kv_bytes(self) -> int:
        return self._client.kv_bytes

    @property
    def weight_bytes(self) -> int:
        """What the budget is charged with for weights."""
        return sum(model.charged_bytes for model in self.models.values())

    def add(self, model: Resident) -> Resident:
        return self.models.setdefault(model.name, model)

    # -- use ----------------------------------------------------------------------------------------------------

    async def acquire(self, model: Resident) -> None:
        """Return when the model is resident; it stays so until `release`. Raises why it cannot be."""
        model.uses += 1
        self._stop_timer(model)
        try:
            await self.load(model)
        except BaseException:
            self.release(model)
            raise

    def release(self, model: Resident, keep_alive: float | None = None) -> None:
        """The use is over; `keep_alive` is for this time only."""
        model.uses -= 1
        self._touch(model)
        if not model.uses:
            self._start_timer(model, model.keep_alive if keep_alive is None else keep_alive)
            self._forget(model)

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
        """Make it resident; returns at once if it is. Those who wait for one model share the work.

        Without `evict`, no other model is unloaded for it: `MemoryBusyError` if that would be needed.
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
        if not done.cancelled():
            done.exception()  # whoever waited was told
        if model.state is ModelState.READY and not model.uses:
            self._start_timer(model, model.keep_alive)
        self._forget(model)

    async def _load(self, model: Resident, evict: bool) -> None:
        try:
            size = await self._fetch(model)
            async with self._lock:
                await self._load_now(model, size, evict)
        except MemoryBusyError:
            model.state = ModelState.UNLOADED
            raise
        except AntiphonError as error:
            self._failed(model, error)
            raise
        except Exception as error:
            logger.exception("model %r could not be loaded", model.name)
            self._failed(model, EngineError(f"an internal error occurred ({type(error).__name__})"))
            raise model.failure from error  # type: ignore[misc]

    def _failed(self, model: Resident, error: AntiphonError) -> None:
        model.state, model.failure, model.failed_at = ModelState.FAILED, error, time.monotonic()

    async def _fetch(self, model: Resident) -> int:
        """Have the files here; returns the bytes of those with weights."""
        from antiphon.runtime.loading.memory_budget import listed_weight_bytes, weight_file_bytes

        listed = listed_weight_bytes(model.reference)
        if listed is not None:
            self._check_fits(model, listed)
        resolved = await fetch_model(model.reference, self._offline, FetchLog(model))
        model.fetching = None
        return await asyncio.to_thread(weight_file_bytes, resolved)

    async def _load_now(self, model: Resident, size: int, evict: bool) -> None:
        """The weights in the engine's process and the text side in this one, at the same time."""
        from antiphon.runtime.loading.model_text import ModelText

        model.charged_bytes = 0
        await self._make_room(model, size, evict)
        model.state, model.failure, model.charged_bytes = ModelState.LOADING, None, size
        try:
            reading = asyncio.to_thread(ModelText.load, model.reference, self._offline)
            text, loaded = await asyncio.gather(reading, self._load_weights(model), return_exceptions=True)
            if isinstance(text, BaseException):
                await self._drop(model)
                raise text
            if isinstance(loaded, BaseException):
                raise loaded
            model.charged_bytes = loaded.weight_bytes
            if loaded.weight_bytes > size:
                await self._check_real_size(model, loaded.weight_bytes, evict)
        except BaseException:
            model.charged_bytes = 0
            model.state = ModelState.UNLOADED
            raise
        model.text, model.loaded, model.state = text, loaded, ModelState.READY
        self._touch(model)

    async def _load_weights(self, model: Resident) -> Loaded:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._client.load(model.name, model.reference)
            except EngineError:
                if attempt == ATTEMPTS or self._client.state is not EngineState.RESTARTING:
                    raise
        raise AssertionError

    async def _check_real_size(self, model: Resident, size: int, evict: bool) -> None:
        """Weights that became larger than their files may have no place after all."""
        model.charged_bytes = 0
        try:
            await self._make_room(model, size, evict)
        except AntiphonError:
            await self._drop(model)
            raise
        model.charged_bytes = size

    # -- the budget ---------------------------------------------------------------------------------------------

    def _check_fits(self, model: Resident, size: int) -> None:
        if size + self.kv_bytes > self.budget_bytes:
            raise MemoryBudgetError(
                f"model {model.name!r} needs {size:,} bytes for its weights and {self.kv_bytes:,} for the KV cache; "
                f"the memory budget is {self.budget_bytes:,} bytes"
            )

    async def _make_room(self, model: Resident, size: int, evict: bool) -> None:
        """Unload idle models, least recently used first, until `size` bytes fit; none if that cannot be enough."""
        self._check_fits(model, size)
        room = self.budget_bytes - self.kv_bytes
        others = [other for other in self.models.values() if other is not model]
        idle = sorted((other for other in others if evict and _is_idle(other)), key=lambda other: other.turn)
        staying = self.weight_bytes - sum(other.charged_bytes for other in idle)
        if staying + size > room:
            names = [other.name for other in others if other.charged_bytes and other not in idle]
            raise MemoryBusyError(
                f"model {model.name!r} needs {size:,} bytes for its weights; {max(0, room - staying):,} of the memory "
                f"budget of {self.budget_bytes:,} bytes are free beside {', '.join(names)}"
            )
        for other in idle:
            if self.weight_bytes + size <= room:
                return
            if _is_idle(other):  # a request may have arrived while another was unloaded
                logger.info("unloading model %r to make room for %r", other.name, model.name)
                await self._unload(other)
        if self.weight_bytes + size > room:
            raise MemoryBusyError(f"model {model.name!r} needs {size:,} bytes; other models came into use meanwhile")

    # -- unloading ----------------------------------------------------------------------------------------------

    async def unload(self, model: Resident, *, force: bool = False) -> None:
        """Free its memory. A model in use is a `ModelInUseError`; with `force` its requests are ended."""
        if model.loading is not None:
            raise ModelInUseError(f"model {model.name!r} is being loaded")
        async with self._lock:
            if model.uses and not force:
                requests = counted(model.uses, "request")
                raise ModelInUseError(f"model {model.name!r} is used by {requests}")
            if model.state is ModelState.READY:
                await self._unload(model)

    async def _unload(self, model: Resident) -> None:
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


def _is_idle(model: Resident) -> bool:
    return model.state is ModelState.READY and not model.uses and not model.is_pinned


class FetchLog:
    """Notes how far a model's download is. Notices, and the progress now and then, go to the log."""

    def __init__(self, model: Resident) -> None:
        self._model = model
        self._told = -FETCH_LOG_SECONDS

    def __call__(self, progress: FetchProgress) -> None:
        self._model.fetching = progress
        if progress.is_notice:
            logger.info("%s: %s", self._model.name, progress.activity)
        elif time.monotonic() - self._told >= FETCH_LOG_SECONDS:
            self._told = time.monotonic()
            done, total = progress.done / 1e6, progress.total / 1e6
            logger.info("%s: %s (%.0f of %.0f MB)", self._model.name, progress.activity, done, total)


async def fetch_model(reference: str, offline: bool, report: Callable[[FetchProgress], None]) -> ResolvedModel:
    """The model's files, on this machine; `report` is called in the event loop.

    The thread that fetches is its own and nobody waits for it: a program that ends leaves the rest for another time.
    """
    from antiphon.weights.catalog import resolve as resolving

    loop = asyncio.get_running_loop()
    result: asyncio.Future[ResolvedModel] = loop.create_future()

    def tell(call: Callable[..., None], *values: object) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(call, *values)

    def settle(value: ResolvedModel | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        elif value is not None:
            result.set_result(value)

    def fetch() -> None:
        try:
            tell(
                settle,
                resolving.resolve(reference, offline=offline, progress=lambda update: tell(report, update)),
                None,
            )
        except Exception as error:
            tell(settle, None, error)

    threading.Thread(target=fetch, name="antiphon-fetch", daemon=True).start()
    return await result
