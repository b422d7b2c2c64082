"""Folders that only this user can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FOLDER_MODE = 0o700


def make_private(folder: Path) -> bool:
    """Create the folder if necessary and close it to other users. Return False if it is not a folder of this user.

    Raise `OSError` if the system refuses it.
    """
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    if stat.S_IMODE(found.st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)
    return True
