"""Opening of regular files only: a FIFO, a socket or a device could block its reader forever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file to read bytes; raise `OSError` for other files, without blocking on a FIFO.

    The type of the opened file is checked, so the path cannot be exchanged for another file after the check.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            kind = next((name for matches, name in KINDS if matches(mode)), "of an unknown type")
            raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path | str) -> bytes:
    """Return the bytes of a regular file; raise `OSError` like `open_regular`."""
    with open_regular(path) as stream:
        return stream.read()


def read_regular_text(path: Path | str, encoding: str = "utf-8") -> str:
    """Return the text of a regular file; raise `OSError` or `UnicodeDecodeError`."""
    return read_regular(path).decode(encoding)
