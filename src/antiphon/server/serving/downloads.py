"""`Downloads`: models that are being downloaded, each once however many requests wait for it."""

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
#: Kept of one download; there are a few at most.
MAX_NOTICES = 100


class Download:
    """One download. It continues if those that wait for it disconnect."""

    def __init__(self, reference: str, offline: bool) -> None:
        self.reference = reference
        self.progress: FetchProgress | None = None
        #: Explanations, each to be shown once.
        self.notices: list[FetchProgress] = []
        self._cancelled = threading.Event()
        self._ending = asyncio.Event()
        self.task = asyncio.create_task(self._run(offline))
        self.task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may have no waiter left

    async def wait(self) -> ResolvedModel:
        """Until it has ended. Cancelling this does not end it."""
        return await asyncio.shield(self.task)

    def cancel(self) -> None:
        """End it with a `DownloadCancelledError`. What has been received completely stays for the next one.

        Its thread ends when it receives more or gives up. Until then the model is locked: another download waits.
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
    """For the server's event loop."""

    def __init__(self, offline: bool) -> None:
        self._offline = offline
        self._running: dict[str, Download] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Download]:
        return iter(list(self._running.values()))

    def find(self, reference: str) -> Download | None:
        """The download of that model, if there is one."""
        return self._running.get(reference)

    def start(self, reference: str) -> Download:
        """The download of that model, which may be running already."""
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
