"""`Downloads`: models that are being downloaded, each once however many requests wait for it."""

from __future__ import annotations

import asyncio

from fastapi import Request

from antiphon.runtime.residency.fetching import fetch_model
from antiphon.server.http.errors import unavailable
from antiphon.weights.catalog.fetch import FetchProgress

MAX_DOWNLOADS = 4


class Download:
    """One download. It continues if those that wait for it disconnect."""

    def __init__(self, reference: str, offline: bool) -> None:
        self.progress: FetchProgress | None = None
        self.task = asyncio.create_task(self._run(reference, offline))
        self.task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may have no waiter left

    async def wait(self) -> None:
        """Until it has ended. Cancelling this does not end it."""
        await asyncio.shield(self.task)

    async def _run(self, reference: str, offline: bool) -> None:
        await fetch_model(reference, offline, self._report)

    def _report(self, progress: FetchProgress) -> None:
        self.progress = progress


class Downloads:
    """For the server's event loop."""

    def __init__(self, offline: bool) -> None:
        self._offline = offline
        self._running: dict[str, Download] = {}

    def __len__(self) -> int:
        return len(self._running)

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
