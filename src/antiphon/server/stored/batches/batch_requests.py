"""`BatchRequests`: the requests of batches, made to the server's own routes and retried where that can help."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec

import orjson
from starlette.types import ASGIApp

from antiphon.runtime.process.client import EngineState
from antiphon.server.serving.failures import LOAD_FAILED
from antiphon.server.serving.serving import Serving
from antiphon.server.stored.batches.input_lines import InputLine, read_input
from antiphon.server.stored.batches.journal import Journal
from antiphon.server.stored.batches.lane import Lane
from antiphon.server.stored.batches.record import BatchRecord
from antiphon.server.stored.files.store import FULL
from antiphon.server.web.middleware.internal_call import Caller, InternalAnswer, call
from antiphon.server.web.telemetry.logs import log

P = ParamSpec("P")

#: Attempts at a request that fails for a reason other than load.
MAX_TRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


class BatchRequests:
    def __init__(self, app: ASGIApp, serving: Serving) -> None:
        self._app = app
        self._client = serving.client
        self._longest = serving.config.limits.body_bytes
        self._lane = Lane(serving.requests, serving.config.limits.batch_concurrency)
        #: Held while a request is retried after a failure, so that one which kills the engine fails alone.
        self._alone = asyncio.Lock()

    async def run(
        self, record: BatchRecord, path: Path, journal: Journal, key: int | None, has_room: Callable[[], bool]
    ) -> bool:
        """Run the requests that the journal lacks. Return False if `has_room` became false before the last one."""
        lines = self._pending(record, path, journal)
        async with asyncio.TaskGroup() as group:
            while True:
                await self._lane.acquire()
                try:
                    line = await asyncio.to_thread(next, lines, None)
                except BaseException:
                    self._lane.release()
                    raise
                if line is None or not has_room():
                    self._lane.release()
                    break
                task = group.create_task(self._run_one(record, line, journal, key))
                task.add_done_callback(lambda _: self._lane.release())
        return line is None

    async def reject_rest(self, record: BatchRecord, path: Path, journal: Journal, code: str, message: str) -> None:
        """Write an error for each request that the journal lacks."""
        lines = self._pending(record, path, journal)
        while (line := await asyncio.to_thread(next, lines, None)) is not None:
            result = _result(line, None, {"code": code, "message": message})
            await until_written(journal.append, result, True)

    def _pending(self, record: BatchRecord, path: Path, journal: Journal) -> Iterator[InputLine]:
        lines = read_input(path, record.endpoint, self._longest)
        return (line for line in lines if line.custom_id not in journal.done)

    async def _run_one(self, record: BatchRecord, line: InputLine, journal: Journal, key: int | None) -> None:
        answer = await self._answer(record.endpoint, orjson.dumps(line.body), Caller(key, is_low_priority=True))
        response = {"status_code": answer.status, "request_id": answer.request_id, "body": answer.body}
        result = _result(line, response, None)
        await until_written(journal.append, result, answer.status >= 400)

    async def _answer(self, endpoint: str, body: bytes, caller: Caller) -> InternalAnswer:
        """Return the answer, retrying for as long as the server is busy or not ready."""
        pause, num_tries = FIRST_PAUSE, 0
        while True:
            while self._client.state is not EngineState.READY:
                await asyncio.sleep(pause)
            if num_tries:
                async with self._alone:
                    answer = await call(self._app, endpoint, body, caller)
            else:
                answer = await call(self._app, endpoint, body, caller)
            code = answer.code or ""
            is_engines = code.startswith("engine_") or code == LOAD_FAILED
            if answer.status < 500 and answer.status != 429:
                return answer
            if answer.status not in (429, 503) or is_engines:
                num_tries += 1
                if num_tries >= MAX_TRIES:
                    return answer
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


async def until_written(write: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call `write`, and retry for as long as the disk is full."""
    is_logged = False
    while True:
        try:
            await write(*args, **kwargs)
            return
        except OSError as error:
            if error.errno not in FULL:
                raise
            if not is_logged:
                log("batches wait: the disk is full", logging.ERROR, cause=error.strerror)
                is_logged = True
        await asyncio.sleep(pause_when_full())


def pause_when_full() -> float:
    return 2.0


def _result(line: InputLine, response: dict[str, Any] | None, error: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": line.custom_id,
        "response": response,
        "error": error,
    }
