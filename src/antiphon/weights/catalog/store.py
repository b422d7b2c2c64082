"""`ModelStore`: the folder of models on this machine, which finds incomplete or changed models and removes models."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon import environment
from antiphon.errors import CheckpointError, HomeError, ModelNotFoundError
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, ModelFile, catalog
from antiphon.weights.catalog.hub_cache import HubCache
from antiphon.weights.catalog.verified import Stamp, VerifiedFiles

CHUNK_BYTES = 1 << 20
MANIFEST = "antiphon-model.json"
MISSING = "is missing"


@dataclass(frozen=True)
class Fault:
    """A file of a model that cannot be used, and the reason."""

    file: ModelFile
    path: Path
    reason: str

    def __str__(self) -> str:
        target = f" (a link to {os.readlink(self.path)})" if self.path.is_symlink() else ""
        return f"{self.path}{target} {self.reason}"


@dataclass(frozen=True)
class Removal:
    """Result of removing a model: bytes freed, and files left in the Hugging Face cache with their repositories."""

    freed: int
    kept: tuple[tuple[str, Path], ...]


@dataclass(frozen=True)
class ModelStore:
    """A folder of models.

    A file under `models/` is complete and was verified; it may be a link into the Hugging Face cache. Incomplete files
    are in `staging/`. `verified/` records size and times of the complete files when their bytes were last verified.
    """

    home: Path

    @classmethod
    def default(cls) -> ModelStore:
        return cls(environment.home())

    def directory(self, name: str) -> Path:
        """Return the folder of a model's verified files."""
        return self.home / "models" / _folder(name)

    def staging(self, name: str) -> Path:
        """Return the folder where a model's files are assembled; only the holder of the model's lock may change it."""
        return self.home / "staging" / _folder(name)

    def verified(self, name: str) -> VerifiedFiles:
        return VerifiedFiles(self.home / "verified" / f"{_folder(name)}.json")

    @contextmanager
    def lock(self, name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold a model's lock between processes; the kernel releases it if this process dies.

        If another process holds the lock, call `on_wait` once and block.
        """
        # Imported here, because the import takes as long as the rest of a command's start, and most commands lock
        # nothing.
        from filelock import FileLock, Timeout

        path = self.home / "locks" / f"{_folder(name)}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if on_wait is not None:
                on_wait()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def path(self, entry: ModelEntry, file: ModelFile) -> Path:
        return self.directory(entry.name) / file.name

    def faults(self, entry: ModelEntry) -> list[Fault]:
        """Return the entry's files that are missing or have the wrong size. No model file is opened."""
        entry = self.pinned(entry)
        if not entry.is_pinned:
            return [Fault(file, self.path(entry, file), MISSING) for file in entry.files]
        out = []
        for file in entry.files:
            path = self.path(entry, file)
            reason = _size_fault(_size(path), file.size)
            if reason is not None:
                out.append(Fault(file, path, reason))
        return out

    def is_present(self, entry: ModelEntry) -> bool:
        return not self.faults(entry)

    def changed(
        self, entry: ModelEntry, *, every_byte: bool = False, on_read: Callable[[ModelFile], None] | None = None
    ) -> list[Fault]:
        """Return the files of a present model whose bytes differ from the catalog's.

        A file that looks as it did when it was last verified is not read, unless `every_byte` is set. `on_read` is
        called before a file is read.
        """
        entry = self.pinned(entry)
        stamps = self.verified(entry.name).read()
        fresh: dict[str, Stamp] = {}
        out = []
        for file in entry.files:
            path = self.path(entry, file)
            stamp = stamps.get(file.name)
            expected = file.sha256 or (stamp.sha256 if stamp else None)
            try:
                if stamp is not None and not every_byte and stamp.sha256 == expected and stamp.fits(path):
                    continue
                if on_read is not None:
                    on_read(file)
                now = Stamp.of(path, "", is_ours=stamp is not None and stamp.is_ours)
                digest = sha256_of(path)
            except PermissionError as error:
                raise HomeError(f"{path} may not be read (permission denied): change its permissions") from error
            except OSError as error:
                raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
            if expected is None or digest == expected:
                fresh[file.name] = replace(now, sha256=digest)
            else:
                # No file has this time, so the next load reads the file again.
                fresh[file.name] = replace(now, sha256=expected, mtime_ns=-1)
                out.append(Fault(file, path, f"has changed: its sha256 is {digest[:12]}…, not {expected[:12]}…"))
        if fresh:
            self.verified(entry.name).update(fresh)
        return out

    def verify(self, entry: ModelEntry) -> None:
        """Read every byte of a model; raise CheckpointError for the first file with wrong bytes."""
        for fault in self.faults(entry) or self.changed(entry, every_byte=True):
            raise CheckpointError(f"{fault}. {repair_hint(entry)}")

    def install(self, entry: ModelEntry, file: ModelFile, staged: Path, sha256: str) -> None:
        """Move a verified file into the model's folder atomically, after its bytes are on the disk."""
        target = self.path(entry, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(staged, target)
        self.verified(entry.name).update({file.name: Stamp.of(target, sha256)})

    def link(self, entry: ModelEntry, file: ModelFile, cached: Path, sha256: str, *, is_ours: bool) -> None:
        """Link a verified file of the Hugging Face cache into the model's folder, or copy it without link support.

        `is_ours` says that Antiphon downloaded the file, so that `remove` may delete it.
        """
        target = self.path(entry, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = target.with_name(f"{target.name}.{os.getpid()}.new")
        staged.unlink(missing_ok=True)
        try:
            staged.symlink_to(cached.absolute())
        except OSError:
            shutil.copyfile(cached, staged)
        os.replace(staged, target)
        self.verified(entry.name).update({file.name: Stamp.of(target, sha256, is_ours=is_ours)})

    def remove(self, name: str) -> Removal:
        """Delete a model and its staged files, or raise ModelNotFoundError if there is nothing to delete.

        In the Hugging Face cache, only files that Antiphon downloaded are deleted, unless another model uses them.
        """
        with self.lock(name):
            folders = [folder for folder in (self.directory(name), self.staging(name)) if folder.exists()]
            if not folders:
                raise ModelNotFoundError(f"{name} is not downloaded (looked in {self.home})")
            links = [path for path in self.directory(name).rglob("*") if path.is_symlink()]
            stamps = self.verified(name).read()
            ours = {file for file, stamp in stamps.items() if stamp.is_ours}
            freed = sum(
                path.stat().st_size
                for folder in folders
                for path in folder.rglob("*")
                if path.is_file() and not path.is_symlink()
            )
            cached = [(path.relative_to(self.directory(name)).as_posix(), Path(os.readlink(path))) for path in links]
            for folder in folders:
                shutil.rmtree(folder)
            self.verified(name).remove()
        kept = []
        for file, target in cached:
            found = HubCache.around(target)
            if found is None or not target.exists() or self._is_used(target, ours=file in ours):
                continue
            cache, repository = found
            if file in ours:
                freed += cache.remove(target)
            else:
                kept.append((repository, target))
        return Removal(freed, tuple(kept))

    def _is_used(self, target: Path, *, ours: bool) -> bool:
        """Return whether another model links to a file of the Hugging Face cache.

        If the file is `ours`, its record passes to that model, which may then delete it.
        """
        for path in (self.home / "models").glob("*/**/*"):
            if path.is_symlink() and Path(os.readlink(path)) == target:
                folder, *rest = path.relative_to(self.home / "models").parts
                record, file = VerifiedFiles(self.home / "verified" / f"{folder}.json"), "/".join(rest)
                stamp = record.read().get(file)
                if ours and stamp is not None:
                    record.update({file: replace(stamp, is_ours=True)})
                return True
        return False

    def record(self, entry: ModelEntry) -> None:
        """Record a complete model outside the catalog, so that it can be listed and used without the hub."""
        manifest = {
            "name": entry.name,
            "format": entry.format,
            "main": entry.main,
            "files": [
                {
                    "name": file.name,
                    "size": file.size,
                    "sha256": file.sha256,
                    "sources": [[source.repository, source.file, source.revision] for source in _hub_sources(file)],
                }
                for file in entry.files
            ],
        }
        staged = self.directory(entry.name) / f"{MANIFEST}.new"
        staged.write_text(json.dumps(manifest, indent=2))
        os.replace(staged, self.directory(entry.name) / MANIFEST)

    def recorded(self, name: str) -> ModelEntry | None:
        """Return the model recorded under that name, complete or not, or None."""
        entry = _read_manifest(self.directory(name) / MANIFEST)
        return entry if entry is not None and entry.name == name else None

    def pinned(self, entry: ModelEntry) -> ModelEntry:
        """Return an unpinned entry with the files that were recorded when it was downloaded, if it was."""
        recorded = None if entry.is_pinned else self.recorded(entry.name)
        if recorded is None or _origin(recorded) != _origin(entry):
            return entry
        return replace(entry, files=recorded.files, is_pinned=True)

    def entries(self) -> Iterator[ModelEntry]:
        """Yield the catalog's entries, pinned if they were downloaded, and the models recorded outside the catalog."""
        for entry in catalog().values():
            yield self.pinned(entry)
        yield from (entry for entry in self.recorded_entries() if entry.name not in catalog())

    def is_partly_here(self, entry: ModelEntry) -> bool:
        """Return whether parts of an interrupted download are staged."""
        return any(path.is_file() for path in self.staging(entry.name).rglob("*"))

    def recorded_entries(self) -> Iterator[ModelEntry]:
        """Yield every model that `record` recorded, complete or not."""
        for path in sorted((self.home / "models").glob(f"*/{MANIFEST}")):
            entry = _read_manifest(path)
            if entry is not None:
                yield entry


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_blob_of(path: Path) -> str:
    """Return the id that git gives to a file: the sha1 of its length and bytes."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def repair_hint(entry: ModelEntry) -> str:
    return f"Run `antiphon pull {entry.name}` to download it again"


def _origin(entry: ModelEntry) -> tuple[str, set[str]]:
    """Return the main file of a hub model, and the repositories of its files."""
    return entry.main, {source.repository for file in entry.files for source in _hub_sources(file)}


def _hub_sources(file: ModelFile) -> list[HubSource]:
    return [source for source in file.sources if isinstance(source, HubSource)]


def _read_manifest(path: Path) -> ModelEntry | None:
    try:
        manifest = json.loads(path.read_text())
        name = manifest["name"]
        repository = name.removeprefix("hub:").partition(":")[0]  # for a manifest without sources
        files = tuple(
            ModelFile(
                file["name"],
                file["size"],
                file["sha256"],
                tuple(HubSource(*item) for item in file.get("sources", [(repository, file["name"])])),
            )
            for file in manifest["files"]
        )
        return ModelEntry(name, name, "completion", manifest["format"], "see the hub", manifest["main"], files)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folder(name: str) -> str:
    return name.replace("/", "--").replace(":", "--")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HomeError(
            f"{path} may not be read ({error.strerror}): change its permissions or set ANTIPHON_HOME"
        ) from error


def _size_fault(found: int | None, expected: int) -> str | None:
    if found is None:
        return MISSING
    if found < expected:
        return f"is truncated: it has {found:,} of {expected:,} bytes"
    return f"has {found:,} bytes instead of {expected:,}" if found > expected else None
