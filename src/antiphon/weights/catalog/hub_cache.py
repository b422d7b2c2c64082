"""The Hugging Face cache, read without its library: finding and removing files of a repository.

The layout is the documented one: `models--owner--name/` has `refs/` (a branch's commit), `snapshots/COMMIT/` (the files
by name) and `blobs/` (their bytes, named by sha256 for large files). Snapshot files are links to blobs, or the files
themselves where links are not supported.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from antiphon.weights.catalog.catalog import HubSource

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubCache:
    """A cache folder. Other programs use it too, so only files that the caller names are removed."""

    folder: Path

    def repository(self, name: str) -> Path:
        return self.folder / f"models--{name.replace('/', '--')}"

    def snapshot(self, repository: str, revision: str) -> Path | None:
        """Return the folder of a branch, tag or commit, or None if the cache does not have it."""
        base = self.repository(repository)
        commit = revision
        if COMMIT.fullmatch(revision) is None:
            try:
                commit = (base / "refs" / revision).read_text().strip()
            except (OSError, UnicodeDecodeError):
                return None
        folder = base / "snapshots" / commit
        return folder if COMMIT.fullmatch(commit) and folder.is_dir() else None

    def set_revision(self, repository: str, revision: str, commit: str) -> None:
        """Record the commit of a branch or tag, so that every program finds the snapshot by that name.

        Errors of a cache that cannot be written are ignored.
        """
        if COMMIT.fullmatch(revision) is None:
            ref = self.repository(repository) / "refs" / revision
            with contextlib.suppress(OSError):
                ref.parent.mkdir(parents=True, exist_ok=True)
                ref.write_text(commit)

    def candidates(self, source: HubSource, size: int, sha256: str | None) -> Iterator[Path]:
        """Yield snapshot files that may match: same name and size, and no other sha256 in their blob's name.

        With a sha256, search every snapshot, the newest first; without one, search only the revision's. Only reading a
        file tells whether its bytes match.
        """
        try:
            if sha256 is None:
                folder = self.snapshot(source.repository, source.revision)
                found = [] if folder is None else [folder / source.file]
            else:
                found = sorted(
                    self.repository(source.repository).glob(f"snapshots/*/{_literal(source.file)}"), key=_age
                )
        except OSError:
            return
        for path in found:
            with contextlib.suppress(OSError):
                blob = blob_sha256(path)
                same_sum = blob is None or sha256 is None or blob == sha256
                if same_sum and path.stat().st_size == size:
                    yield path

    @classmethod
    def around(cls, path: Path) -> tuple[HubCache, str] | None:
        """Return the cache that holds a snapshot file, and its repository; None for a file outside any cache."""
        for parent in path.parents:
            if parent.name.startswith("models--") and (parent / "snapshots") in path.parents:
                return cls(parent.parent), parent.name.removeprefix("models--").replace("--", "/", 1)
        return None

    def remove(self, path: Path) -> int:
        """Delete a snapshot file, and its blob unless another snapshot uses it; return the number of bytes freed."""
        base = self.folder / path.relative_to(self.folder).parts[0]
        size = path.stat().st_size
        blob = Path(os.path.normpath(path.parent / os.readlink(path))) if path.is_symlink() else None
        if blob is not None and blob.is_symlink():
            return _remove_shared(self.folder, path)
        path.unlink()
        if blob is not None:
            if any(link.is_symlink() and link.resolve() == blob.resolve() for link in base.glob("snapshots/**/*")):
                size = 0
            else:
                blob.unlink(missing_ok=True)
        if not any(item.is_symlink() or item.is_file() for item in base.glob("snapshots/**/*")):
            shutil.rmtree(base)
        return size


def blob_sha256(path: Path) -> str | None:
    """Return the sha256 that the cache records for a snapshot file, or None."""
    name = os.path.basename(os.readlink(path)) if path.is_symlink() else ""
    return name if SHA256.fullmatch(name) else None


def _remove_shared(folder: Path, path: Path) -> int:
    """Delete a snapshot file whose blob several repositories share; only the library knows which of them use it."""
    from huggingface_hub import scan_cache_dir

    found = scan_cache_dir(folder)
    files = [file for repo in found.repos for revision in repo.revisions for file in revision.files]
    strategy = found.delete_files(*(file for file in files if file.file_path == path))
    strategy.execute()
    return int(strategy.expected_freed_size)


def _age(path: Path) -> float:
    return -path.lstat().st_mtime


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
