"""`FileStore`: files on disk that clients uploaded or batches wrote, each owned by an API key."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import IO

from antiphon.counted import counted
from antiphon.server.serving.setup.config import Limits
from antiphon.server.stored.files.record import FileRecord, new_file_id
from antiphon.server.stored.files.state_folder import COPY_BYTES, StateFolder, read_records, written
from antiphon.server.web.http.errors import SERVER, ApiError
from antiphon.server.web.telemetry.logs import log

#: Error numbers of a full disk.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileStore:
    """Files with their records. Records are held in memory; reading and writing run in threads.

    For one event loop. File names consist of ids that the server makes, never of text from clients.
    """

    def __init__(self, folder: StateFolder, limits: Limits) -> None:
        self.folder = folder
        self._limits = limits
        self._records: dict[str, FileRecord] = {}
        self._reserved: Counter[str] = Counter()
        self._uploading: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def load(self) -> None:
        """Read all records. A damaged record is logged, left on the disk and skipped."""
        paths = self.folder.files.glob("file-*.json")
        read = partial(self.folder.read, kind=FileRecord)
        self._records = read_records(paths, read, "a stored file is damaged", self._check_size)
        # left by an upload that was killed before its record was written
        for data in self.folder.files.glob("file-*.data"):
            if not data.with_suffix(".json").exists():
                data.unlink(missing_ok=True)

    def _check_size(self, record: FileRecord) -> None:
        size = self.path(record.id).stat().st_size
        if size != record.bytes:
            raise ValueError(f"the data has {size:,} bytes; the record says {record.bytes:,}")

    def path(self, file_id: str) -> Path:
        return self.folder.files / f"{file_id}.data"

    # -- reading ------------------------------------------------------------------------------------------------

    def find(self, file_id: str, owner: str, param: str | None = None) -> FileRecord:
        """Return the record. Raise 404 if the file was deleted, has expired or belongs to another key."""
        record = self._records.get(file_id)
        if record is None or record.owner != owner or record.has_expired():
            message = f"there is no file {file_id[:100]!r}"
            raise ApiError(404, message, code="file_not_found", param=param)
        return record

    def has(self, file_id: str) -> bool:
        return file_id in self._records

    def of_owner(self, owner: str, purpose: str | None = None) -> list[FileRecord]:
        """Return an owner's files in order of creation."""
        now = time.time()
        found = [record for record in self._records.values() if record.owner == owner and not record.has_expired(now)]
        return [record for record in found if purpose in (None, record.purpose)]

    def room(self, owner: str) -> int:
        """Return the bytes that a key may still store, apart from those reserved for its uploads in flight."""
        used = sum(record.bytes for record in self._records.values() if record.owner == owner)
        return self._limits.files_bytes - used - self._reserved[owner]

    # -- writing ------------------------------------------------------------------------------------------------

    def reserve(self, owner: str, declared: int | None) -> int:
        """Reserve room for an upload, and return its limit in bytes. `release` returns the reservation."""
        num = self._uploading[owner] + sum(record.owner == owner for record in self._records.values())
        if num >= self._limits.files:
            message = f"this key has {counted(num, 'file')}; at most {self._limits.files:,} are allowed: delete some"
            raise quota_error(message)
        room = self.room(owner)
        if room <= 0 or (declared is not None and declared > room):
            asked = "" if declared is None else f" and this request has {declared:,}"
            message = (
                f"this key has room for {max(0, room):,} of {self._limits.files_bytes:,} bytes{asked}: delete files"
            )
            raise quota_error(message)
        limit = min(self._limits.file_bytes, room) if declared is None else declared
        self._uploading[owner] += 1
        self._reserved[owner] += limit
        return limit

    def release(self, owner: str, limit: int) -> None:
        self._uploading[owner] -= 1
        self._reserved[owner] -= limit

    async def add(
        self, owner: str, stream: IO[bytes], filename: str, purpose: str, expires_after: int | None
    ) -> FileRecord:
        """Copy a stream into a new file. After an error, nothing is left of it."""
        now = int(time.time())
        values = {"id": new_file_id(), "owner": owner, "filename": filename, "purpose": purpose, "created_at": now}
        expires = None if expires_after is None else now + expires_after
        try:
            record = await asyncio.to_thread(self._write, stream, {**values, "expires_at": expires})
        except OSError as error:
            raise storage_error(error) from error
        self._records[record.id] = record
        return record

    def _write(self, stream: IO[bytes], values: dict[str, object]) -> FileRecord:
        path = self.path(str(values["id"]))
        with written(path) as target:
            shutil.copyfileobj(stream, target, COPY_BYTES)
            size = target.tell()
        record = FileRecord.model_validate({**values, "bytes": size})
        try:
            self.folder.save(path.with_suffix(".json"), record)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return record

    async def register(self, record: FileRecord) -> None:
        """Add a file whose data is already at its path."""
        await asyncio.to_thread(self.folder.save, self.path(record.id).with_suffix(".json"), record)
        self._records[record.id] = record

    def hold(self, file_id: str) -> None:
        """Prevent the file from being deleted or expiring until `let_go`."""
        self._held[file_id] += 1

    def let_go(self, file_id: str) -> None:
        self._held[file_id] -= 1

    async def remove(self, record: FileRecord) -> None:
        if self._held[record.id] > 0:
            message = f"file {record.id} is the input of a batch that has not ended: cancel the batch first"
            raise ApiError(409, message, code="file_in_use", param="file_id")
        self._records.pop(record.id, None)
        await asyncio.to_thread(self._delete, [record])

    async def remove_expired(self) -> None:
        now = time.time()
        old = [one for one in self._records.values() if one.has_expired(now) and not self._held[one.id]]
        for record in old:
            del self._records[record.id]
        await asyncio.to_thread(self._delete, old)

    def _delete(self, records: Iterable[FileRecord]) -> None:
        for record in records:
            data = self.path(record.id)
            for path in (data.with_suffix(".json"), data):  # otherwise a crash in between leaves a record without data
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    log("a stored file cannot be deleted", logging.ERROR, path=str(path), cause=str(error))


def quota_error(message: str) -> ApiError:
    return ApiError(400, message, code="storage_quota_exceeded")


def storage_error(error: OSError) -> ApiError:
    """Log a failed write, and return 507 if the disk is full, otherwise 500."""
    cause = error.strerror or type(error).__name__
    log("cannot write files", logging.ERROR, cause=cause)
    if error.errno in FULL:
        return ApiError(507, f"the server cannot store this: {cause}", code="storage_full", kind=SERVER)
    return ApiError(500, f"the server cannot store this: {cause}", code="storage_failed", kind=SERVER)
