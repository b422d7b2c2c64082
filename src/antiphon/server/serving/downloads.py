"""`Downloads`: running model downloads, one per model however many requests wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from fastapi import Request

from antiphon.errors import DownloadCancelledError
from antiphon.runtime.residency.fetching import fetch_model
from antiphon.server.web.http.errors import unavailable
from antiphon.weights.catalog.fetch import FetchProgress
from antiphon.weights.catalog.resolve import ResolvedModel

MAX_DOWNLOADS = 4
#: Maximum notices kept per download; a download has only a few.
MAX_NOTICES = 100


class Download:
    """Running download of a model. It continues if all requests that wait for it disconnect."""

    def __init__(self, reference: str, offline: bool) -> None:
        self.reference = reference
        self.progress: FetchProgress | None = None
        #: Explanations for the user, each to be shown once.
        self.notices: list[FetchProgress] = []
        self._cancelled = threading.Event()
        self._ending = asyncio.Event()
        self.task = asyncio.create_task(self._run(offline))
        # retrieve the error: asyncio logs one that no request does
        self.task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def wait(self) -> ResolvedModel:
        """Return the model once the download ends. Cancelling this call does not cancel the download."""
        return await asyncio.shield(self.task)

    def cancel(self) -> None:
        """End the download with a `DownloadCancelledError`. Completely received files stay for the next download.

        The thread ends at its next data or when it gives up. Until then the model is locked, so another download of it
        waits.
        """
        self._cancelled.set()
        self._ending.set()

    async def _run(self, offline: bool) -> ResolvedModel:
        fetching = asyncio.create_task(fetch_model(self.reference, offline, self._report, self._cancelled))
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait([fetching, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if fetching.done():
            return await fetching
        fetching.cancel()
        raise DownloadCancelledError(f"the download of {self.reference} was cancelled")

    def _report(self, progress: FetchProgress) -> None:
        if not progress.is_notice:
            self.progress = progress
        elif len(self.notices) < MAX_NOTICES:
            self.notices.append(progress)


class Downloads:
    """Running downloads by model reference. Only for the server's event loop."""

    def __init__(self, offline: bool) -> None:
        self._offline = offline
        self._running: dict[str, Download] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Download]:
        return iter(list(self._running.values()))

    def find(self, reference: str) -> Download | None:
        return self._running.get(reference)

    def start(self, reference: str) -> Download:
        """Return the running download of a model, or start one; raise 503 if too many are running."""
        if reference in self._running:
            return self._running[reference]
        if len(self) >= MAX_DOWNLOADS:
            message = f"{len(self)} models are being downloaded; at most {MAX_DOWNLOADS} are at the same time"
            raise unavailable(message, "too_many_downloads", 30)
        made = self._running[reference] = Download(reference, self._offline)
        made.task.add_done_callback(lambda _: self._running.pop(reference))
        return made


def downloads_of(request: Request) -> Downloads:
    downloads: Downloads = request.app.state.downloads
    return downloads
