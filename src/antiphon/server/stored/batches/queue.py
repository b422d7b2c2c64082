"""`BatchQueue`: batches that have not ended, which continue after a restart."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp

from antiphon.server.serving.serving import Serving
from antiphon.server.stored.batches.batch_requests import BatchRequests
from antiphon.server.stored.batches.batch_run import BatchParts, BatchRun
from antiphon.server.stored.batches.record import BatchFault, BatchRecord
from antiphon.server.stored.batches.store import BatchStore
from antiphon.server.stored.files.access import files_of
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.telemetry.logs import log, log_failure

SWEEP_SECONDS = 600.0


class BatchQueue:
    """Queue of batches: one after another for one key, side by side for different keys, all in one `Lane`."""

    def __init__(self, app: ASGIApp, serving: Serving, files: FileStore, store: BatchStore) -> None:
        self.store = store
        config, requests = serving.config, BatchRequests(app, serving)
        self._parts = BatchParts(files, store, requests, config.keys, config.limits, asyncio.Lock())
        self._runs: dict[str, BatchRun] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Continue the batches that have not ended, and delete files when they expire."""
        for record in self.store.unfinished():
            log("batch resumed", batch=record.id, status=record.status)
            self._begin(record)
        self._spawn(self._sweep())

    async def close(self) -> None:
        """Stop. Batches that have not ended continue at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def submit(self, record: BatchRecord) -> None:
        self._parts.files.hold(record.input_file_id)
        try:
            await self.store.add(record)
            self._begin(record)
        finally:
            self._parts.files.let_go(record.input_file_id)

    async def cancel(self, record: BatchRecord) -> BatchRecord:
        """Cancel the batch, and return its record as of now."""
        run = self._runs.get(record.id)
        return record if run is None else await run.cancel()

    def shown(self, record: BatchRecord) -> BatchRecord:
        run = self._runs.get(record.id)
        return record if run is None else run.shown()

    def _begin(self, record: BatchRecord) -> None:
        self._parts.files.hold(record.input_file_id)
        run = self._runs[record.id] = BatchRun(record, self._parts, self._turns[record.owner])
        self._spawn(self._run(run))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, run: BatchRun) -> None:
        record = run.record
        try:
            await run.run()
        except Exception as error:
            log_failure(error, batch=record.id)
            await run.fail(BatchFault(code="internal_error", message="the server failed to run the batch"))
        del self._runs[record.id]
        self._parts.files.let_go(record.input_file_id)
        log("batch ended", batch=record.id, status=record.status, **record.counts.model_dump())

    async def _sweep(self) -> None:
        while True:
            await self._parts.files.remove_expired()
            await asyncio.sleep(SWEEP_SECONDS)


def queue_of(request: Request) -> BatchQueue:
    """Return the application's queue. Raise 503 if this server stores no files."""
    files_of(request)
    queue: BatchQueue = request.app.state.batches
    return queue
