"""`SocketFolder`: the folder of an engine process's sockets, and the removal of folders of killed servers."""

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
#: Lock file that the process which created the folder keeps locked for its whole life.
LOCK = "lock"
CONTENTS = frozenset({LOCK, "commands", "events"})
#: Age after which a folder without a lock is removed, because its server was killed before it could lock it.
UNLOCKED_SECONDS = 3600.0
#: Maximum length of a Unix socket's path, with a small margin.
MAX_SOCKET_PATH = 100


class SocketFolder:
    """Folder that only this user can enter. Creation first removes the folders of dead processes."""

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
            os.close(self._lock)  # another starting process took the folder for abandoned, and removes it

    def remove(self) -> None:
        """Remove the folder; a second call does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(parent: Path) -> None:
    """Remove this user's folders whose processes have died. Folders of live processes and other users stay."""
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
    """Lock a file; return False if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
