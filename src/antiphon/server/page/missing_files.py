"""`MissingFiles`: bytes that models still have to download, looked up without blocking the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from antiphon.errors import HomeError
from antiphon.server.serving.admin.stored_models import stored_entry
from antiphon.weights.catalog.fetch import missing_bytes
from antiphon.weights.catalog.references import HUB_PREFIX
from antiphon.weights.catalog.store import ModelStore

#: Seconds for which a look at the disk is used, however many pages ask.
LOOK_SECONDS = 1.0


class MissingFiles:
    """Bytes to download by model reference; None if they are unknown, 0 for a path. For the server's event loop."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, int | None]] = {}
        self._looking = asyncio.Lock()

    async def look(self, references: Collection[str]) -> dict[str, int | None]:
        """Return the bytes of each reference, at most `LOOK_SECONDS` old."""
        async with self._looking:
            now = time.monotonic()
            self._found = {name: kept for name, kept in self._found.items() if now - kept[0] < LOOK_SECONDS}
            unknown = [name for name in references if name not in self._found]
            if unknown:
                sizes = await asyncio.to_thread(_sizes, unknown)
                self._found |= {name: (now, size) for name, size in sizes.items()}
            return {name: self._found[name][1] for name in references}


def _sizes(references: Collection[str]) -> dict[str, int | None]:
    store = ModelStore.default()
    return {reference: _size(reference, store) for reference in references}


def _size(reference: str, store: ModelStore) -> int | None:
    entry = stored_entry(reference, store)
    if entry is None:
        return None if reference.startswith(HUB_PREFIX) else 0
    try:
        return missing_bytes(entry, store)
    except HomeError:  # the load reports the reason
        return None
