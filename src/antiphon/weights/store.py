"""`ModelStore`: where models lie on this machine, which are present, and how one is removed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from antiphon import environment
from antiphon.errors import CheckpointError, ModelNotFoundError
from antiphon.weights.catalog import ModelEntry, ModelFile
from antiphon.weights.lock import FileLock

CHUNK_BYTES = 1 << 20
MANIFEST = "antiphon-model.json"


@dataclass(frozen=True)
class ModelStore:
    """A folder of models. A file under `models/` is complete and was verified; what is not yet lies in `staging/`."""

    home: Path

    @classmethod
    def default(cls) -> ModelStore:
        return cls(environment.home())

    def directory(self, name: str) -> Path:
        """Where a model's files lie once they are verified."""
        return self.home / "models" / _folder(name)

    def staging(self, name: str) -> Path:
        """Where a model's files are put together; only the holder of its lock may touch it."""
        return self.home / "staging" / _folder(name)

    def lock(self, name: str, on_wait: Callable[[], None] | None = None) -> FileLock:
        return FileLock(self.home / "locks" / f"{_folder(name)}.lock", on_wait)

    def path(self, entry: ModelEntry, file: ModelFile) -> Path:
        return self.directory(entry.name) / file.name

    def missing(self, entry: ModelEntry) -> list[ModelFile]:
        """The entry's files that are not here, or not of the right size."""
        return [file for file in entry.files if _size(self.path(entry, file)) != file.size]

    def is_present(self, entry: ModelEntry) -> bool:
        return not self.missing(entry)

    def verify(self, entry: ModelEntry) -> None:
        """Read every file of a present model again; CheckpointError names the first that is not what was fetched."""
        for file in entry.files:
            path = self.path(entry, file)
            if _size(path) != file.size:
                raise CheckpointError(f"{path} has {_size(path) or 0:,} bytes, not {file.size:,}: {_refetch(entry)}")
            if file.sha256 is not None and sha256_of(path) != file.sha256:
                raise CheckpointError(f"{path} does not have sha256 {file.sha256}: {_refetch(entry)}")

    def install(self, entry: ModelEntry, file: ModelFile, staged: Path) -> None:
        """Move a verified file to its place, atomically; it is durable before it becomes visible."""
        target = self.path(entry, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(staged, target)

    def remove(self, name: str) -> int:
        """Delete a model and whatever was staged for it; returns the bytes freed, or raises if there is nothing."""
        with self.lock(name):
            folders = [folder for folder in (self.directory(name), self.staging(name)) if folder.exists()]
            if not folders:
                raise ModelNotFoundError(f"{name} is not on this machine (looked in {self.home})")
            freed = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
            for folder in folders:
                shutil.rmtree(folder)
        return freed

    def record(self, entry: ModelEntry) -> None:
        """Note a complete model that no catalog knows, so that it can be listed and used without the hub."""
        manifest = {
            "name": entry.name,
            "format": entry.format,
            "main": entry.main,
            "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in entry.files],
        }
        staged = self.directory(entry.name) / f"{MANIFEST}.new"
        staged.write_text(json.dumps(manifest, indent=2))
        os.replace(staged, self.directory(entry.name) / MANIFEST)

    def recorded(self, name: str) -> ModelEntry | None:
        """The model noted under that name, if it is complete."""
        return next((entry for entry in self.recorded_entries() if entry.name == name), None)

    def recorded_entries(self) -> Iterator[ModelEntry]:
        """Every complete model that was noted by `record`."""
        for path in sorted((self.home / "models").glob(f"*/{MANIFEST}")):
            entry = _read_manifest(path)
            if entry is not None and self.is_present(entry):
                yield entry


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_manifest(path: Path) -> ModelEntry | None:
    try:
        manifest = json.loads(path.read_text())
        files = tuple(ModelFile(file["name"], file["size"], file["sha256"], ()) for file in manifest["files"])
        name = manifest["name"]
        return ModelEntry(name, name, "completion", manifest["format"], "see the hub", manifest["main"], files)
    except (ValueError, KeyError, TypeError):
        return None


def _folder(name: str) -> str:
    return name.replace("/", "--").replace(":", "--")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refetch(entry: ModelEntry) -> str:
    return f"run `antiphon rm {entry.name}` and `antiphon pull {entry.name}`"
