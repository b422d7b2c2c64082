"""Size and times of a model's files when their bytes were last verified, which make the check at load cheap."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stamp:
    """A verified file: its sha256, and the properties that change when a file is written or replaced.

    `is_ours` says that Antiphon downloaded the file into the Hugging Face cache.
    """

    sha256: str
    size: int
    mtime_ns: int
    inode: int
    is_ours: bool = False

    @classmethod
    def of(cls, path: Path, sha256: str, *, is_ours: bool = False) -> Stamp:
        """Return the stamp of a file in its present state; links are followed."""
        facts = path.stat()
        return cls(sha256, facts.st_size, facts.st_mtime_ns, facts.st_ino, is_ours)

    def fits(self, path: Path) -> bool:
        """Return whether the file looks unchanged since it was verified; its bytes are not read."""
        facts = path.stat()
        return (facts.st_size, facts.st_mtime_ns, facts.st_ino) == (self.size, self.mtime_ns, self.inode)


@dataclass(frozen=True)
class VerifiedFiles:
    """A JSON file with the stamps of one model's files.

    An unreadable record counts as empty, and a home folder that is not writable keeps no record: files are then read at
    every load.
    """

    path: Path

    def read(self) -> dict[str, Stamp]:
        try:
            return {name: Stamp(**fields) for name, fields in json.loads(self.path.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def update(self, stamps: dict[str, Stamp]) -> None:
        """Add stamps to the record, replacing older stamps of the same files."""
        merged = {**self.read(), **stamps}
        staged = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            staged.write_text(json.dumps({name: asdict(stamp) for name, stamp in merged.items()}, indent=1))
            os.replace(staged, self.path)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
