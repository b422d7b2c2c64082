"""`StateFolder`: the folder of a server's files and batches. Records in it are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from antiphon.errors import AntiphonError

FOLDER_MODE, FILE_MODE = 0o700, 0o600
PARTIAL = ".partial"
COPY_BYTES = 1 << 20
#: Records are small; a larger file is not one.
MAX_RECORD_BYTES = 1 << 22

Record = TypeVar("Record", bound=BaseModel)


class StateFolderError(AntiphonError):
    """The folder cannot be used, or another server uses it."""


class StateFolder:
    """Open for one server at a time: a lock is held until `close`, and is free when the process ends.

    The folder is readable for its user alone. Methods block; call them in a thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "files"
        self.batches = path / "batches"
        try:
            for folder in (path, self.files, self.batches):
                _make_private(folder)
            self._lock = FileLock(path / "lock", mode=FILE_MODE)
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
        """Write the record, replacing an earlier one. After an error the earlier one is still there."""
        with written(path) as stream:
            stream.write(record.model_dump_json().encode())

    def read(self, path: Path, kind: type[Record]) -> Record:
        """The record in a file; `ValueError` if it is damaged."""
        with open(path, "rb") as stream:
            data = stream.read(MAX_RECORD_BYTES + 1)
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(step) for step in fault["loc"]) or "the record"
            raise ValueError(f"{place}: {fault['msg']}") from None


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content is at `path`, on the disk, once the block has ended without an error."""
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
    """Have the disk hold all that was written."""
    stream.flush()
    os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Have the disk hold the folder's names."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_private(folder: Path) -> None:
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StateFolderError(f"{folder} is not a folder of this user")
    if stat.S_IMODE(found.st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)
