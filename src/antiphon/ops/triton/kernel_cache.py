"""Where compiled kernels are kept on disk: Triton's cache, in a folder of Antiphon's unless the user has named one.

Files are written under another name and then renamed, so several processes may share it.
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

#: In `ANTIPHON_HOME`.
FOLDER = "kernels"
#: In the cache: an empty file for each variant of a kernel that is there.
MARKS = "ahead"


def use_kernel_cache() -> None:
    """Have Triton keep kernels in `ANTIPHON_HOME`, unless TRITON_CACHE_DIR or TRITON_HOME says where.

    Where that cannot be written, Triton's own default stays, with a warning. To be called before the first kernel.
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
    """The folder that Triton uses; it need not exist."""
    return Path(knobs.cache.dir)


class CompiledMarks:
    """Which variants of kernels the cache has: asking Triton would compile them.

    A mark without a kernel costs time only: the kernel is compiled when it is read.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or cache_folder()) / MARKS

    def __contains__(self, digest: str) -> bool:
        return (self._folder / digest).exists()

    def add(self, digest: str) -> None:
        """Failing to write is no error: the kernel is compiled again next time."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._folder / digest, os.O_CREAT, 0o644))
        except OSError as error:
            logger.debug("%s cannot be marked as compiled: %s", digest, error)
