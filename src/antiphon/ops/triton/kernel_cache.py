"""Triton's cache of compiled kernels on disk, in `ANTIPHON_HOME` unless the user names another folder.

Files are written under a temporary name and then renamed, so several processes may share the cache.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from triton import knobs

from antiphon import environment
from antiphon.errors import HomeError
from antiphon.ops.triton.ahead.kernel_modules import hash_kernels

logger = logging.getLogger(__name__)

#: Folder of the cache in `ANTIPHON_HOME`.
FOLDER = "kernels"
#: Folder in the cache with an empty file for each compiled variant of a kernel.
MARKS = "ahead"


def use_kernel_cache() -> None:
    """Set Triton's cache to a folder in `ANTIPHON_HOME`, unless TRITON_CACHE_DIR or TRITON_HOME is set.

    Must be called before the first kernel. If the folder is not writable, log a warning and keep Triton's default.
    """
    hash_kernels()
    if not environment.triton_cache_is_chosen():
        _use_home()


def _use_home() -> None:
    try:
        folder = environment.home() / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, HomeError) as error:
        logger.warning("kernels are cached in %s, not in ANTIPHON_HOME: %s", cache_folder(), error)
        return
    knobs.cache.dir = str(folder)


def cache_folder() -> Path:
    """Return Triton's cache folder, which may not exist yet."""
    return Path(knobs.cache.dir)


class CompiledMarks:
    """Record of the variants in the cache; Triton cannot report whether it has a variant without compiling it.

    A mark without its kernel only costs time: the kernel is compiled when it is read.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or cache_folder()) / MARKS

    def __contains__(self, digest: str) -> bool:
        return (self._folder / digest).exists()

    def add(self, digest: str) -> None:
        """Mark a variant as compiled. A failed write is only logged: the kernel is compiled again next time."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._folder / digest, os.O_CREAT, 0o644))
        except OSError as error:
            logger.debug("%s cannot be marked as compiled: %s", digest, error)
