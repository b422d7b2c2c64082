"""`SocketFolder`: the folder of an engine process's sockets, and the removal of those that killed servers left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

PREFIX = "antiphon-"
#: Held locked by the process that made the folder, for as long as it lives.
LOCK = "lock"
CONTENTS = frozenset({LOCK, "commands", "events"})
#: A folder without a lock is removed when it is older: its server was killed before it could lock it.
UNLOCKED_SECONDS = 3600.0
#: A path of a Unix socket may not be longer, by a little.
MAX_SOCKET_PATH = 100


class SocketFolder:
    """A folder that only this user can enter. Folders whose processes have died are removed first."""

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        if len(str(parent)) + len(f"/{PREFIX}12345678/commands") > MAX_SOCKET_PATH:
            parent = Path("/tmp")
        remove_abandoned(parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _locks(self._lock):
                return
            os.close(self._lock)  # another process that starts took it for abandoned, and removes it

    def remove(self) -> None:
        """Remove the folder; a second time does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(parent: Path) -> None:
    """Remove this user's folders whose processes have died. Those of live processes and other users stay."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(parent)):
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(folder: Path) -> None:
    details = folder.stat(follow_symlinks=False)
    names = os.listdir(folder)
    if details.st_uid != os.geteuid() or not CONTENTS.issuperset(names):
        return
    if LOCK not in names:
        if time.time() - details.st_mtime > UNLOCKED_SECONDS:
            _remove(folder, names)
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(lock).st_mode) and _locks(lock):
            _remove(folder, names)
    finally:
        os.close(lock)


def _remove(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _locks(descriptor: int) -> bool:
    """Lock a file, unless another process has it locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
