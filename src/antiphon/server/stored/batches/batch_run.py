"""`BatchRun`: one batch on its way through its states. Each state is on the disk before the batch acts on it."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from antiphon.server.serving.setup.config import Limits
from antiphon.server.stored.batches.batch_requests import BatchRequests, until_written
from antiphon.server.stored.batches.input_lines import check_input
from antiphon.server.stored.batches.journal import ERROR, EXPIRED, OUTPUT, Journal
from antiphon.server.stored.batches.record import BatchFault, BatchRecord
from antiphon.server.stored.batches.store import BatchStore
from antiphon.server.stored.files.access import ANYONE
from antiphon.server.stored.files.record import FileRecord, new_file_id
from antiphon.server.stored.files.state_folder import written
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.access.keys import KeyRing

NO_ROOM = ("storage_quota_exceeded", "This request was not executed: the stored files of this key reached their limit.")


@dataclass(frozen=True)
class BatchParts:
    """Objects that all batches of a server share. With `validating`, one input file is checked at a time."""

    files: FileStore
    store: BatchStore
    requests: BatchRequests
    keys: KeyRing | None
    limits: Limits
    validating: asyncio.Lock


class BatchRun:
    """Execution of one batch. It holds `turn` while its requests run, so batches of one key run one after another."""

    def __init__(self, record: BatchRecord, parts: BatchParts, turn: asyncio.Lock) -> None:
        self.record = record
        self._parts = parts
        self._turn = turn
        self._stop = asyncio.Event()
        self._journal: Journal | None = None
        if record.status == "cancelling":
            self._stop.set()

    async def cancel(self) -> BatchRecord:
        """Stop the batch, and return its record as of now. Results so far are kept.

        A batch that is being finalized still completes.
        """
        if self.record.status not in ("validating", "in_progress"):
            return self.shown()
        self.record.enter("cancelling")
        self._stop.set()
        shown = self.shown().model_copy()
        await self._save()  # meanwhile the batch may end
        return shown

    def shown(self) -> BatchRecord:
        """Return the record with the current counts."""
        if self._journal is None:
            return self.record
        counts = self._journal.counts.model_copy(update={"total": self.record.counts.total})
        return self.record.model_copy(update={"counts": counts})

    async def run(self) -> None:
        """Run the batch to its end. If cancelled, it leaves a state on the disk from which another run continues."""
        record, parts = self.record, self._parts
        if record.status in ("validating", "in_progress") and not parts.files.has(record.input_file_id):
            await self.fail(BatchFault(code="file_not_found", message="the input file is missing or damaged"))
        if record.status in ("validating", "in_progress") and not self._has_key():
            await self.fail(BatchFault(code="invalid_api_key", message="the API key of the batch was removed"))
        if record.status == "validating":
            await self._validate()
        if record.status in ("in_progress", "cancelling"):
            self._journal = await asyncio.to_thread(Journal, parts.store.folder.batches, record.id)
            await self._execute(self._journal)
        if record.status == "finalizing":
            await self._finalize()

    async def fail(self, *faults: BatchFault) -> None:
        self.record.errors = list(faults)
        self.record.enter("failed")
        await self._save()

    def _has_key(self) -> bool:
        owner, keys = self.record.owner, self._parts.keys
        return owner == ANYONE if keys is None else keys.number(owner) is not None

    async def _save(self) -> None:
        await until_written(self._parts.store.save, self.record)

    # -- states -------------------------------------------------------------------------------------------------

    async def _validate(self) -> None:
        record, parts = self.record, self._parts
        path = parts.files.path(record.input_file_id)
        details = (path, record.endpoint, parts.limits.batch_requests, parts.limits.body_bytes)
        async with parts.validating:
            checked = await asyncio.to_thread(check_input, *details)
        record.counts.total = checked.num_requests
        record.model = checked.model
        if record.status != "validating":  # cancelled meanwhile
            return
        if checked.faults:
            await self.fail(*checked.faults)
            return
        record.enter("in_progress")
        await self._save()

    async def _execute(self, journal: Journal) -> None:
        """Run the remaining requests until all are done, the batch is cancelled, or its time or room is used up."""
        record, parts = self.record, self._parts
        path = parts.files.path(record.input_file_id)
        work = asyncio.create_task(self._work(path, journal))
        stop = asyncio.create_task(self._stop.wait())
        try:
            left = max(0.0, record.expires_at - time.time())
            await asyncio.wait({work, stop}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, stop):
                task.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)
            await journal.settle()
        if self._stop.is_set():
            record.ending = "cancelled"
        elif work.cancelled():
            record.ending = "expired"
            await parts.requests.reject_rest(record, path, journal, *EXPIRED)
        else:
            record.ending = "completed"
            if not work.result():
                await parts.requests.reject_rest(record, path, journal, *NO_ROOM)
        record.counts = journal.counts.model_copy(update={"total": record.counts.total})
        record.num_expired = journal.num_expired
        record.usage = dict(journal.tokens)
        record.output_file_id = new_file_id() if journal.counts.completed else None
        record.error_file_id = new_file_id() if journal.counts.failed else None
        record.enter("finalizing")
        await self._save()

    async def _work(self, path: Path, journal: Journal) -> bool:
        record, parts = self.record, self._parts
        key = None if parts.keys is None else parts.keys.number(record.owner)

        def has_room() -> bool:
            return parts.files.room(record.owner) > journal.num_bytes

        async with self._turn:
            return await parts.requests.run(record, path, journal, key, has_room)

    async def _finalize(self) -> None:
        """Turn the results into files. Their ids are already recorded, so a repetition after a crash has no effect."""
        record, files = self.record, self._parts.files
        base = self._parts.store.folder.batches / record.id
        results = ((record.output_file_id, OUTPUT), (record.error_file_id, ERROR))
        for file_id, suffix in results:
            if file_id is not None and not files.has(file_id):
                await until_written(self._make_file, file_id, base, suffix)
        assert record.ending is not None
        record.enter(record.ending)
        await self._save()
        for _, suffix in results:
            await asyncio.to_thread(base.with_name(base.name + suffix).unlink, missing_ok=True)

    async def _make_file(self, file_id: str, base: Path, suffix: str) -> None:
        record, files = self.record, self._parts.files
        source, target = base.with_name(base.name + suffix), files.path(file_id)
        now = int(time.time())

        def copy() -> int:
            target.unlink(missing_ok=True)
            try:
                os.link(source, target)
            except OSError:  # the file system has no hard links
                with open(source, "rb") as stream, written(target) as copied:
                    shutil.copyfileobj(stream, copied)
            return target.stat().st_size

        size = await asyncio.to_thread(copy)
        made = FileRecord(
            id=file_id,
            owner=record.owner,
            filename=f"{record.id}{suffix.replace('.', '_')}.jsonl",
            purpose="batch_output",
            bytes=size,
            created_at=now,
            expires_at=now + record.output_seconds,
        )
        await files.register(made)
