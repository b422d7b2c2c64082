"""`DetectorLane`: an engine's detectors, in a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from antiphon.engine.core import EngineCore
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import EngineError
from antiphon.models.base.model import Model
from antiphon.models.base.parts import Detector
from antiphon.runtime.calls.control import new_id
from antiphon.runtime.frontend.loop import EngineLoop, slot_figures
from antiphon.runtime.loading.loading import LoadedModel

Value = TypeVar("Value")


class DetectorLane:
    """Second engine loop for detectors only, so that a detection never waits for a step of a language model.

    The thread starts with the first detector. Requests of all calls that arrive during a step are batched in the next.
    May be used from any thread. `load` loads a model by its reference, and `make_slots` creates its slots.
    """

    def __init__(
        self, load: Callable[[str], LoadedModel], make_slots: Callable[[LoadedModel], list[ModelSlot]]
    ) -> None:
        self._load = load
        self._make_slots = make_slots
        self._lock = threading.Lock()
        self._models: dict[str, Future[LoadedModel]] = {}
        self._loop: EngineLoop | None = None
        self._is_closed = False
        self.core = EngineCore()

    # -- models -------------------------------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        return name in self._models

    def loaded(self, name: str) -> LoadedModel | None:
        """Return the named detector if it is loaded, waiting for a load under way; otherwise None."""
        known = self._models.get(name)
        return None if known is None or known.exception() is not None else known.result()

    def model(self, name: str) -> Model:
        """Return the detector with this name, which is also its reference, and load it if necessary."""
        return self.add(name, lambda: self._load(name)).model

    def add(self, name: str, load: Callable[[], LoadedModel]) -> LoadedModel:
        """Return the named detector; if it is missing, load it with `load`. Concurrent callers share one load."""
        with self._lock:
            if self._is_closed:
                raise EngineError("the engine is closed")
            known = self._models.get(name)
            if known is None:
                mine = self._models[name] = Future()
        if known is not None:
            return known.result()
        try:
            loaded = load()
            slots = self._make_slots(loaded)
            self._started().call(lambda: self._add_slots(slots)).result()
        except BaseException as error:
            with self._lock:
                self._models.pop(name, None)
            mine.set_exception(error)
            raise
        mine.set_result(loaded)
        return loaded

    def _started(self) -> EngineLoop:
        with self._lock:
            if self._is_closed:
                raise EngineError("the engine is closed")
            if self._loop is None:
                self._loop = EngineLoop(self.core, name="antiphon-detectors")
            return self._loop

    def _add_slots(self, slots: list[ModelSlot]) -> None:
        for slot in slots:
            self.core.add_model(slot)

    def remove(self, name: str) -> None:
        """Cancel the detector's requests and free its memory. The next use loads it again."""
        if self.loaded(name) is None:
            return
        with self._lock:  # keeps others from adding the detector before it is removed; a step is short
            known = self._models.get(name)
            if known is not None and known.done() and self._loop is not None:
                self._loop.call(lambda: self.core.remove_model(name)).result()
                del self._models[name]

    # -- requests -----------------------------------------------------------------------------------------------

    def run(self, name: str, inputs: Any, priority: Priority = Priority.NORMAL) -> Any:
        """Return the detector's result for one input. Raises `EngineError` if its step failed or it was unloaded."""
        part = self.model(name).part(Detector)
        assert part is not None and self._loop is not None
        outcome: SimpleQueue[Request | BaseException] = SimpleQueue()

        def rejected(added: Future[None]) -> None:
            error = added.exception()
            if error is not None:
                outcome.put(error)

        request = Request(
            new_id("detection"),
            name,
            range(part.size(inputs)),
            SamplingParams(),
            task="detect",
            priority=priority,
            inputs=inputs,
            on_end=outcome.put,
        )
        self._loop.add([request]).add_done_callback(rejected)
        ended = outcome.get()
        if isinstance(ended, BaseException):
            raise ended
        if ended.finish_reason is not FinishReason.STOP:
            raise EngineError(f"{name} ended by {ended.finish_reason}: {ended.error or 'no result'}")
        return ended.result

    # -- figures ------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, dict[str, int]]:
        return self.read(slot_figures) or {}

    def read(self, function: Callable[[EngineCore], Value]) -> Value | None:
        """Call `function` with the lane's core between two steps; return None if the lane was never used."""
        return None if self._loop is None else self._loop.call(lambda: function(self.core)).result()

    @property
    def busy_since(self) -> float | None:
        """`EngineLoop.busy_since` of the lane's loop; None before the lane is used."""
        return None if self._loop is None else self._loop.busy_since

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            loop = self._loop
        if loop is not None:
            loop.close()
        self._models.clear()
