"""Download of a model: each file's sources are tried in order, and only verified files become part of the store.

Files from the hub are kept in the Hugging Face cache and linked from the store. Files from packages are assembled in
the store's staging folder, where complete parts stay, so that an interrupted download continues with them. If a part of
an earlier run is damaged, it is downloaded once more before the next source is tried.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from antiphon import environment
from antiphon.errors import CheckpointError, DiskFullError, FetchError
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, ModelFile, Package, PackageSource
from antiphon.weights.catalog.hub import Hub, HubListing, HubUnreachableError, default_hub
from antiphon.weights.catalog.hub_cache import HubCache, blob_sha256
from antiphon.weights.catalog.package_parts import PackageParts
from antiphon.weights.catalog.store import MISSING, Fault, ModelStore, git_blob_of, repair_hint, sha256_of


@dataclass(frozen=True)
class FetchProgress:
    """Progress of one model's download: `done` of `total` bytes of the files that were missing; `done` <= `total`.

    With `is_notice`, `activity` is an explanation to show once, not the step in progress.
    """

    model: str
    activity: str
    done: int
    total: int
    is_notice: bool = False


ProgressCallback = Callable[[FetchProgress], None]


def fetch(
    entry: ModelEntry,
    store: ModelStore,
    *,
    offline: bool = False,
    progress: ProgressCallback | None = None,
    hub: Hub | None = None,
    repair: bool = False,
    every_byte: bool = False,
) -> None:
    """Make every file of `entry` present in `store`, with the bytes of the catalog.

    Missing and truncated files are downloaded. A file with other bytes raises CheckpointError, or is downloaded again
    if `repair` is set; `every_byte` reads all files, not only those that look changed. After a FetchError, the store
    holds no unverified file. If several processes fetch the same model, one downloads it and the others wait.
    """
    report = progress or (lambda update: None)
    hub = hub or default_hub()
    offline = offline or environment.offline()

    def waiting() -> None:
        report(FetchProgress(entry.name, "waiting for another process to finish this download", 0, entry.size))

    def reading(file: ModelFile) -> None:
        if every_byte or file.size >= NOTICEABLE_BYTES:
            report(FetchProgress(entry.name, f"verifying {file.name}", 0, entry.size))

    faults = store.faults(entry)
    is_complete = not faults
    if is_complete:
        faults = store.changed(entry, every_byte=every_byte, on_read=reading)
        if faults and (offline or not repair):
            raise CheckpointError(f"{entry.name}: {faults[0]}. {repair_hint(entry)}{' while online' * offline}")
    if not faults:
        return
    if offline and not all(_in_cache(fault.file, hub.cache) for fault in faults):
        raise FetchError(_offline_error(entry, faults))
    try:
        with store.lock(entry.name, waiting):
            for fault in faults:
                if fault.reason != MISSING:
                    activity = f"{fault}; downloading it again"
                    report(FetchProgress(entry.name, activity, 0, fault.file.size, is_notice=True))
            # Another process may have completed the model by now; changed files are downloaded in any case.
            missing = [fault.file for fault in (faults if is_complete else store.faults(entry))]
            if missing:
                _Fetch(entry, missing, store, hub, report, offline).run()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFullError(
                f"{_NO_SPACE}: {store.home} is full, {entry.name} is not complete: {_SPACE_FIX}"
            ) from error
        raise FetchError(f"{entry.name}: cannot write to {store.home} ({error.strerror or error})") from error


def is_downloaded(entry: ModelEntry, store: ModelStore) -> bool:
    """Return whether a model can be used without a download, judged by file sizes."""
    return missing_bytes(entry, store) == 0


def missing_bytes(entry: ModelEntry, store: ModelStore) -> int:
    """Return the bytes of a model's files that have to be downloaded, judged by file sizes. No file is opened."""
    cache = HubCache(environment.hub_cache())
    return sum(fault.file.size for fault in store.faults(entry) if not _in_cache(fault.file, cache))


def _in_cache(file: ModelFile, cache: HubCache) -> bool:
    """Return whether the Hugging Face cache seems to hold the file, without reading it."""
    sources = (source for source in file.sources if isinstance(source, HubSource))
    return any(path for source in sources for path in cache.candidates(source, file.size, file.sha256))


def _offline_error(entry: ModelEntry, faults: list[Fault]) -> str:
    fix = f"run `antiphon pull {entry.name}` while online"
    damaged = next((fault for fault in faults if fault.reason != MISSING), None)
    if damaged is not None:
        return f"{entry.name}: {damaged}, and downloads are off: {fix}"
    names = ", ".join(fault.file.name for fault in faults[:3]) + (", …" if len(faults) > 3 else "")
    return f"{entry.name} is not downloaded (missing {names}), and downloads are off: {fix}"


#: Minimum size of a file whose reading is reported, because it takes noticeable time.
NOTICEABLE_BYTES = 20_000_000
_NO_SPACE = "No space left on device"
_SPACE_FIX = "free some space there or set ANTIPHON_HOME to a folder on another disk"


@dataclass
class _Fetch:
    """A download of one model's missing files, run while the model is locked.

    `is_from_packages` says that a file comes from packages, of which complete parts are kept between runs.
    """

    entry: ModelEntry
    missing: list[ModelFile]
    store: ModelStore
    hub: Hub
    report: ProgressCallback
    offline: bool
    installed_bytes: int = 0
    listings: dict[tuple[str, str], HubListing] = field(default_factory=dict)
    noticed: set[str] = field(default_factory=set)
    named_packages: set[Package] = field(default_factory=set)
    installed_files: int = 0
    is_from_packages: bool = False

    def __post_init__(self) -> None:
        self.packages = PackageParts(self.store.staging(self.entry.name), self.missing, self.activity)
        self.total = sum(file.size for file in self.missing)

    def run(self) -> None:
        self.packages.remove_temporary()
        try:
            for file in self.missing:
                self.fetch_file(file)
                self.installed_bytes += file.size
                self.installed_files += 1
        except BaseException as error:
            self.packages.remove_temporary()
            if not isinstance(error, Exception):  # Ctrl-C, or a signal that ends the program
                self.notice(f"stopped: {self.kept()}")
            raise
        shutil.rmtree(self.packages.folder, ignore_errors=True)

    def kept(self) -> str:
        """Return what the next run need not download again, in words."""
        if self.is_from_packages:
            count, num_kept, unit = len(_packages(self.missing)), self.num_kept_packages(), "package"
        else:
            count, num_kept, unit = len(self.missing), self.installed_files, "file"
        if num_kept:
            return f"{num_kept} of {count} {unit}s are kept; the same command continues"
        return f"no {unit} was complete; the same command starts again"

    def num_kept_packages(self) -> int:
        return sum(self.packages.is_kept(package) for package in _packages(self.missing))

    def check_space(self) -> None:
        """Raise FetchError if there is no room for the packages' parts and the files assembled from them."""
        self.store.home.mkdir(parents=True, exist_ok=True)
        total = self.total - self.installed_bytes
        staged = self.packages.staged_bytes()
        needed = max(2 * total - staged, total)
        free = shutil.disk_usage(self.store.home).free
        if free < needed:
            raise FetchError(
                f"{self.entry.name} needs {needed / 1e6:,.0f} MB in {self.store.home} while it is assembled, "
                f"and {free / 1e6:,.0f} MB are free: {_SPACE_FIX}"
            )

    def fetch_file(self, file: ModelFile) -> None:
        failures: list[FetchError] = []
        for source in file.sources:
            try:
                if isinstance(source, HubSource):
                    if self.from_cache(file, source):
                        return
                    if not self.offline:
                        return self.from_hub(file, source)
                elif not self.offline:
                    self.is_from_packages = True
                    self.notice_packages(file, failures[-1] if failures else None)
                    self.check_space()
                    return self.store.install(self.entry, file, *self.packages.obtain(file, source, bool(failures)))
            except HubUnreachableError as error:
                failures.append(error)
            except FetchError as error:
                kind = DiskFullError if isinstance(error, DiskFullError) else FetchError
                failures.append(kind(f"{source}: {error}"))
        if self.offline:
            absent = _offline_error(self.entry, self.store.faults(self.entry))
            raise FetchError("; ".join([absent, *map(str, failures)]))
        target = self.store.path(self.entry, file)
        kept = f" ({self.kept()})" if self.num_kept_packages() else ""
        cause = f"{_NO_SPACE}: " if any(isinstance(failure, DiskFullError) for failure in failures) else ""
        raise FetchError(
            f"{cause}{self.entry.name}: cannot download {file.name}: {'; '.join(map(str, failures))}. "
            f"Try again later{kept}, or put the file ({file.size:,} bytes) at {target} yourself"
        )

    def notice_packages(self, file: ModelFile, failure: FetchError | None) -> None:
        """Report once why packages are downloaded, and that their bytes are verified."""
        reason = "" if failure is None else str(failure)
        is_general = failure is None or isinstance(failure, HubUnreachableError)
        found = _packages(self.missing if is_general else [file])
        if reason in self.noticed or (failure is None and self.named_packages.issuperset(_packages([file]))):
            return
        self.noticed.add(reason)
        self.named_packages.update(found)
        if failure is None:
            text = f"this model comes from {_names(found)}."
        else:
            what = "The same files are" if is_general else f"{file.name} is"
            text = f"{reason}. {what} downloaded from a mirror instead: {_names(found)}."
        text += " The sha256 of every file is checked against the catalog; no code of a package is run."
        self.notice(text)

    def from_cache(self, file: ModelFile, source: HubSource) -> bool:
        """Link the file from the Hugging Face cache and return True, or return False if the cache does not have it.

        Raise FetchError if the cache has it with damaged bytes.
        """
        for cached in self.hub.cache.candidates(source, file.size, file.sha256):
            self.activity(f"verifying {file.name} in the Hugging Face cache", 0)
            try:
                digest = sha256_of(cached)
            except OSError:
                continue
            if file.sha256 is None or digest == file.sha256:
                self.store.link(self.entry, file, cached, digest, is_ours=False)
                return True
            if blob_sha256(cached) == file.sha256:
                raise FetchError(_damaged_in_cache(cached, source.repository, digest, file))
        return False

    def from_hub(self, file: ModelFile, source: HubSource) -> None:
        """Download the file into the Hugging Face cache, and link it from there."""
        listing = self.listing(source)
        listed = listing.files.get(source.file)
        if listed is None:
            raise FetchError(f"{source.repository} on {self.hub.endpoint} has no file {source.file}")
        if listed.size != file.size or (listed.sha256 and file.sha256 and listed.sha256 != file.sha256):
            found = f"{listed.size:,} bytes, sha256 {(listed.sha256 or 'unknown')[:12]}"
            expected = f"{file.size:,} bytes, sha256 {(file.sha256 or 'unknown')[:12]}"
            raise FetchError(f"{source.file} has changed on the hub ({found}; expected {expected})")
        cached, is_new = self.hub.download(
            listing, listed, lambda done: self.activity(f"downloading {file.name} from the model hub", done)
        )
        self.activity(f"verifying {file.name}", file.size)
        digest = sha256_of(cached)
        has_hubs_digest = listed.git_blob is None or listed.git_blob == git_blob_of(cached)
        if cached.stat().st_size != file.size or file.sha256 not in (None, digest) or not has_hubs_digest:
            message = _damaged_in_cache(cached, source.repository, digest, file)
            if is_new:
                expected = _expected(file, listed.git_blob)
                message = f"{file.name} came with {_found(cached, digest)} where {expected} are expected"
                self.hub.cache.remove(cached)
            raise FetchError(message)
        if is_new:
            self.hub.cache.set_revision(source.repository, source.revision, listing.commit)
        self.store.link(self.entry, file, cached, digest, is_ours=is_new)

    def listing(self, source: HubSource) -> HubListing:
        key = source.repository, source.revision
        if key not in self.listings:
            self.activity(f"asking {self.hub.endpoint} for {source.repository}", 0)
            self.listings[key] = self.hub.files(*key)
        return self.listings[key]

    def notice(self, text: str) -> None:
        done = min(self.installed_bytes, self.total)
        self.report(FetchProgress(self.entry.name, text, done, self.total, is_notice=True))

    def activity(self, text: str, done: int) -> None:
        self.report(FetchProgress(self.entry.name, text, min(self.installed_bytes + done, self.total), self.total))


def _packages(files: list[ModelFile]) -> list[Package]:
    sources = [source for file in files for source in file.sources if isinstance(source, PackageSource)]
    return list(dict.fromkeys(part.package for source in sources for part in source.parts))


def _names(found: list[Package]) -> str:
    """Summarise packages by registry: `packages a==1 and 5 more on PyPI, package b@2 on npm`."""
    by_registry: dict[str, list[Package]] = {}
    for package in found:
        by_registry.setdefault(package.registry_name, []).append(package)
    return ", ".join(
        f"package {names[0]} on {registry}"
        if len(names) == 1
        else f"packages {names[0]} and {len(names) - 1} more on {registry}"
        for registry, names in by_registry.items()
    )


def _expected(file: ModelFile, git_blob: str | None = None) -> str:
    digests = [f"{kind} {digest[:12]}…" for kind, digest in (("sha256", file.sha256), ("git blob", git_blob)) if digest]
    return " and ".join([f"{file.size:,} bytes", *digests])


def _found(path: Path, digest: str) -> str:
    return f"{path.stat().st_size:,} bytes and sha256 {digest[:12]}…"


def _damaged_in_cache(path: Path, repository: str, digest: str, file: ModelFile) -> str:
    return (
        f"the Hugging Face cache holds a damaged file, which was not deleted: {path} has {_found(path, digest)} where "
        f"{_expected(file)} are expected; delete it with `hf cache rm model/{repository}` and try again"
    )
