"""`StateFolder`: the folder of a server's files and batches. Its records are written whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Protocol, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from antiphon.errors import AntiphonError
from antiphon.server.web.access.private_folder import make_private
from antiphon.server.web.telemetry.logs import log

FILE_MODE = 0o600
PARTIAL = ".partial"
COPY_BYTES = 1 << 20
#: Maximum bytes of a record. Records are small: a larger file is something else.
MAX_RECORD_BYTES = 1 << 22

Record = TypeVar("Record", bound=BaseModel)


class StoredRecord(Protocol):
    """Fields that `read_records` needs."""

    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> int: ...


Stored = TypeVar("Stored", bound=StoredRecord)


class StateFolderError(AntiphonError):
    """Failure to use the folder, for example because another server holds it."""


class StateFolder:
    """Folder of one server, locked until `close` or the end of the process, and private to its user.

    Methods block; call them in a thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "files"
        self.batches = path / "batches"
        try:
            for folder in (path, self.files, self.batches):
                if not make_private(folder):
                    raise StateFolderError(f"{folder} is not a folder of this user")
            self._lock = FileLock(path / "lock", mode=FILE_MODE, thread_local=False)  # any thread may release it
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StateFolderError(
                f"another server uses {path} for files and batches; give this one another --files-dir"
            ) from None
        except OSError as error:
            raise StateFolderError(f"cannot use {path} for files and batches: {error.strerror or error}") from error
        for folder in (self.files, self.batches):
            for partial in folder.glob(f"*{PARTIAL}"):  # left by a process that was killed
                partial.unlink(missing_ok=True)

    def close(self) -> None:
        self._lock.release()

    def save(self, path: Path, record: BaseModel) -> None:
        """Write a record, replacing an earlier one. After an error, the earlier record is intact."""
        with written(path) as stream:
            stream.write(record.model_dump_json().encode())

    def read(self, path: Path, kind: type[Record]) -> Record:
        """Return the record in a file. Raise `ValueError` if it is damaged."""
        with open(path, "rb") as stream:
            data = stream.read(MAX_RECORD_BYTES + 1)
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(str(step) for step in fault["loc"]) or "the record"
            raise ValueError(f"{field}: {fault['msg']}") from None


def read_records(
    paths: Iterable[Path], read: Callable[[Path], Stored], damaged: str, check: Callable[[Stored], None] | None = None
) -> dict[str, Stored]:
    """Read files named after their records' ids. Return the records by id, in order of creation.

    If `read` or `check` raises `ValueError` or `OSError`, log the message `damaged` and skip the record.
    """
    found: list[Stored] = []
    for path in paths:
        try:
            record = read(path)
            if record.id != path.stem:
                raise ValueError(f"the record is of {record.id}")
            if check is not None:
                check(record)
        except (OSError, ValueError) as error:
            log(damaged, logging.ERROR, path=str(path), cause=str(error))
            continue
        found.append(record)
    return {record.id: record for record in sorted(found, key=lambda one: (one.created_at, one.id))}


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content replaces `path`, synced to the disk, once the block ends without an error."""
    partial = path.with_name(path.name + PARTIAL)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            flush(stream)
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def flush(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Have the disk hold the folder's file names."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
