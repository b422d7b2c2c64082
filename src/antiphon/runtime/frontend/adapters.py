"""`AdapterSlots`: loaded adapters, each in a slot of its model."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from antiphon.engine.core import EngineCore
from antiphon.errors import InvalidRequestError
from antiphon.runtime.frontend.loop import EngineLoop
from antiphon.runtime.loading.adapter_names import MAX_ADAPTERS, adapter_model_name, name_of_adapter
from antiphon.runtime.loading.adapters import LoadedAdapter, load_adapter
from antiphon.runtime.loading.loading import LoadedModel


class AdapterSlots:
    """Loaded adapters, usable from any thread; slots change between two steps, in the engine's thread."""

    def __init__(self, loop: EngineLoop, core: EngineCore) -> None:
        self._loop = loop
        self._core = core
        self._lock = threading.Lock()
        self._loaded: dict[str, tuple[LoadedAdapter, int]] = {}

    @property
    def loaded(self) -> Mapping[str, tuple[LoadedAdapter, int]]:
        """Adapters with their slots, by `base:adapter`."""
        return MappingProxyType(self._loaded)

    def load(self, base: LoadedModel, path: Path, name: str | None) -> tuple[LoadedAdapter, int]:
        """Read an adapter and give it a slot of its model; return once requests can use it."""
        full = adapter_model_name(base.name, name_of_adapter(path) if name is None else name)
        with self._lock:
            self._check(base.name, full)
        adapter = load_adapter(base, path, full)  # outside of the lock, so that other adapters load meanwhile
        with self._lock:
            self._check(base.name, full)
            slot = self._free_slot(base.name)

            def attach() -> None:
                self._core.add_adapter(base.name, slot, adapter.fitted.digest)
                adapter.fitted.attach(slot)

            try:
                self._loop.call(attach).result()
            except BaseException:
                self._remove(adapter, slot)
                raise
            self._loaded[full] = (adapter, slot)
            return adapter, slot

    def _check(self, base: str, full: str) -> None:
        if full in self._loaded:
            raise InvalidRequestError(f"adapter {full!r} is loaded already; unload it first")
        own = [name for name, (adapter, _) in self._loaded.items() if adapter.base == base]
        if len(own) >= MAX_ADAPTERS:
            raise InvalidRequestError(f"model {base!r} has {len(own)} adapters, the most at a time; unload one first")

    def _free_slot(self, base: str) -> int:
        taken = {slot for adapter, slot in self._loaded.values() if adapter.base == base}
        return next(slot for slot in range(MAX_ADAPTERS) if slot not in taken)

    def unload(self, name: str) -> None:
        """End the requests that use the adapter and free its memory."""
        with self._lock:
            self._remove(*self._loaded.pop(name))

    def _remove(self, adapter: LoadedAdapter, slot: int) -> None:
        def detach() -> None:
            self._core.remove_adapter(adapter.base, slot)
            adapter.fitted.detach(slot)

        self._loop.call(detach).result()

    def forget(self, base: str) -> list[str]:
        """Remove the adapters of a model that is being unloaded; return their names."""
        with self._lock:
            names = [name for name, (adapter, _) in self._loaded.items() if adapter.base == base]
            for name in names:
                del self._loaded[name]
            return names
