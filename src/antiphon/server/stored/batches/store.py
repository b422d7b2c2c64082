"""`BatchStore`: the records of all batches, in memory and on disk."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from antiphon.counted import counted
from antiphon.server.stored.batches.journal import ERROR, OUTPUT
from antiphon.server.stored.batches.record import MESSAGES, BatchRecord
from antiphon.server.stored.files.state_folder import StateFolder, read_records
from antiphon.server.stored.files.store import quota_error, storage_error
from antiphon.server.web.http.errors import ApiError

#: Maximum batches per key. The oldest ended batches are removed first.
MAX_BATCHES = 1000


class BatchStore:
    """Records of batches, for one event loop. Reading and writing run in threads."""

    def __init__(self, folder: StateFolder) -> None:
        self.folder = folder
        self._records: dict[str, BatchRecord] = {}
        self._saving = asyncio.Lock()

    def load(self) -> None:
        """Read all records. A damaged record is logged, left on the disk and skipped."""
        read = partial(self.folder.read, kind=BatchRecord)
        paths = self.folder.batches.glob("batch_*.json")
        self._records = read_records(paths, read, "the record of a batch is damaged")

    def unfinished(self) -> list[BatchRecord]:
        """Return the batches that have not ended, in order of creation."""
        return [record for record in self._records.values() if not record.has_ended]

    def find(self, batch_id: str, owner: str, endpoint: str | None = None) -> BatchRecord:
        """Return the owner's batch, or raise 404; `endpoint` as in `of_owner`."""
        record = self._records.get(batch_id)
        if record is None or record.owner != owner or not _fits(record, endpoint):
            raise ApiError(404, f"there is no batch {batch_id[:100]!r}", code="batch_not_found")
        return record

    def of_owner(self, owner: str, endpoint: str | None = None) -> list[BatchRecord]:
        """Return an owner's batches in order of creation: those of an endpoint, by default all but message batches."""
        return [record for record in self._all_of(owner) if _fits(record, endpoint)]

    def _all_of(self, owner: str) -> list[BatchRecord]:
        return [record for record in self._records.values() if record.owner == owner]

    async def add(self, record: BatchRecord) -> None:
        """Store a new batch. Raise if the key has too many unfinished batches, or the disk fails."""
        await self._make_room(record.owner)
        self._records[record.id] = record  # before the first await: otherwise concurrent calls exceed the quota
        try:
            await self.save(record)
        except OSError as error:
            del self._records[record.id]
            raise storage_error(error) from error

    async def save(self, record: BatchRecord) -> None:
        async with self._saving:  # otherwise an older state could be written last
            await asyncio.to_thread(self.folder.save, self._path(record), record.model_copy(deep=True))

    async def remove(self, record: BatchRecord) -> None:
        self._records.pop(record.id, None)
        await asyncio.to_thread(self._delete, record)

    async def _make_room(self, owner: str) -> None:
        own = self._all_of(owner)
        ended = [record for record in own if record.has_ended]
        num_open = len(own) - len(ended)
        if num_open >= MAX_BATCHES:
            raise quota_error(f"this key has {counted(num_open, 'batch', 'batches')} that have not ended; cancel some")
        for record in ended[: max(0, len(own) + 1 - MAX_BATCHES)]:
            del self._records[record.id]
            await asyncio.to_thread(self._delete, record)

    def _delete(self, record: BatchRecord) -> None:
        path = self._path(record)
        for old in (path.with_suffix(OUTPUT), path.with_suffix(ERROR), path):
            old.unlink(missing_ok=True)

    def _path(self, record: BatchRecord) -> Path:
        return self.folder.batches / f"{record.id}.json"


def _fits(record: BatchRecord, endpoint: str | None) -> bool:
    return record.endpoint != MESSAGES if endpoint is None else record.endpoint == endpoint
