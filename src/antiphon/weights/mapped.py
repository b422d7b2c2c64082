"""Read-only memory mapping of a file, whose pages are read on access."""

from __future__ import annotations

import mmap
import os
import warnings
from pathlib import Path

import torch
from torch import Tensor

from antiphon.errors import CheckpointError
from antiphon.regular_file import open_regular


class MappedFile:
    """The bytes of a non-empty file, for parsing (`buffer`) and as a flat uint8 tensor (`tensor`).

    The tensor and every view of it keep the mapping alive. Writing to them crashes the process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_regular(path) as file:
                self.size = os.fstat(file.fileno()).st_size
                if self.size == 0:
                    raise CheckpointError(f"{path} is empty (0 bytes)")
                self.buffer = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error

    def release_pages(self) -> None:
        """Release the pages that were read; the next access reads them from the file again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.buffer.madvise(mmap.MADV_DONTNEED)

    def tensor(self) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            return torch.frombuffer(self.buffer, dtype=torch.uint8)
