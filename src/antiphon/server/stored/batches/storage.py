"""Storage of files and batches, opened and closed with the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from antiphon.server.serving.serving import Serving
from antiphon.server.stored.batches.queue import BatchQueue
from antiphon.server.stored.batches.store import BatchStore
from antiphon.server.stored.files.state_folder import StateFolder, StateFolderError
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.telemetry.logs import log

NOT_CONFIGURED = "this server stores no files: it has no folder for them"


@asynccontextmanager
async def open_storage(app: FastAPI, serving: Serving) -> AsyncIterator[None]:
    """Set `app.state.files` and `app.state.batches`, or leave them None with the cause in `files_failure`."""
    app.state.files = app.state.batches = None
    app.state.files_failure = NOT_CONFIGURED
    path = serving.config.files_dir
    if path is None:
        yield
        return
    try:
        folder = await asyncio.to_thread(StateFolder, path)
    except StateFolderError as error:
        app.state.files_failure = str(error)
        log("files and batches are off", logging.WARNING, cause=str(error))
        yield
        return
    try:
        files, store = FileStore(folder, serving.config.limits), BatchStore(folder)
        await asyncio.to_thread(files.load)
        await asyncio.to_thread(store.load)
        queue = BatchQueue(app, serving, files, store)
        app.state.files, app.state.batches = files, queue
        queue.start()
        try:
            yield
        finally:
            await queue.close()
    finally:
        folder.close()
