"""`fetch_model`: a model's files, resolved or downloaded without blocking the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from antiphon.errors import DownloadCancelledError
from antiphon.runtime.residency.daemon_thread import in_daemon_thread, notify
from antiphon.runtime.residency.resident import Resident

if TYPE_CHECKING:
    from antiphon.weights.catalog.fetch import FetchProgress
    from antiphon.weights.catalog.resolve import ResolvedModel

logger = logging.getLogger("antiphon.models")

FETCH_LOG_SECONDS = 5.0


class FetchLog:
    """Recorder of a model's download progress. It logs notices, and the progress every FETCH_LOG_SECONDS."""

    def __init__(self, model: Resident) -> None:
        self._model = model
        self._logged = -FETCH_LOG_SECONDS

    def __call__(self, progress: FetchProgress) -> None:
        self._model.fetching = progress
        if progress.is_notice:
            logger.info("%s: %s", self._model.name, progress.activity)
        elif time.monotonic() - self._logged >= FETCH_LOG_SECONDS:
            self._logged = time.monotonic()
            done, total = progress.done / 1e6, progress.total / 1e6
            logger.info("%s: %s (%.0f of %.0f MB)", self._model.name, progress.activity, done, total)


async def fetch_model(
    reference: str,
    offline: bool,
    report: Callable[[FetchProgress], None],
    cancelled: threading.Event | None = None,
) -> ResolvedModel:
    """Resolve a model's files, downloading missing ones; `report` is called in the event loop.

    Setting `cancelled` raises `DownloadCancelledError` at the next progress report, within a fraction of a second. The
    thread is a daemon: a program that ends does not wait for the download, which continues at the next start.
    """
    from antiphon.weights.catalog import resolve as resolving

    loop = asyncio.get_running_loop()

    def progress(update: FetchProgress) -> None:
        if cancelled is not None and cancelled.is_set():
            raise DownloadCancelledError(f"the download of {reference} was cancelled")
        notify(loop, report, update)

    return await in_daemon_thread(
        "antiphon-fetch", lambda: resolving.resolve(reference, offline=offline, progress=progress)
    )
