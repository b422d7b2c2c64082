"""Access to the model hub through `huggingface_hub`: listing repositories, downloading into the Hugging Face cache.

The library applies the user's own settings: token (`HF_TOKEN` or `hf auth login`), proxies, endpoint, cache. Its import
takes 0.3 s, so it is imported at the first request.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from antiphon import environment
from antiphon.errors import DiskFullError, DownloadCancelledError, FetchError
from antiphon.weights.catalog.hub_cache import HubCache

REACH_SECONDS = 5.0
RETRY_SECONDS = 60.0
READ_SECONDS = 60.0
MAIN = "main"
FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
DISK_ERRORS = (*FULL_ERRORS, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
LOGIN = "set HF_TOKEN or run `hf auth login`"


class HubUnreachableError(FetchError):
    """The hub did not answer, or requests to it are disabled."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository as the hub lists it. It lists a sha256 for large files, and a git blob id for others."""

    name: str
    size: int
    sha256: str | None
    git_blob: str | None = None


@dataclass(frozen=True)
class HubListing:
    """The files of a repository at one commit, by name."""

    repository: str
    commit: str
    files: Mapping[str, HubFile]


class Hub:
    """A model hub, and the cache for its files.

    After a failed connection, requests fail at once for a minute, so that not every file waits for a timeout.
    """

    def __init__(self, endpoint: str, cache: Path, *, is_off: bool = False) -> None:
        self.endpoint = endpoint
        self.cache = HubCache(cache)
        self._is_off = is_off
        self._probe_lock = threading.Lock()
        self._reached = False
        self._unreachable: str | None = None
        self._unreachable_until = 0.0

    def obstacle(self, seconds: float | None = None) -> str | None:
        """Return why the hub cannot be asked, or None if it answers within the timeout, by default REACH_SECONDS.

        The answer is kept: a hub that was reached is not asked again, and one that was not only after a minute.
        """
        try:
            self._require_reachable(seconds)
        except HubUnreachableError as error:
            return str(error)
        return None

    def files(self, repository: str, revision: str = MAIN) -> HubListing:
        """List the files of a repository at a branch, tag or commit."""
        self._require_reachable()
        from huggingface_hub import HfApi

        with _quiet, self._plain_errors(repository, revision):
            api = HfApi(endpoint=self.endpoint, library_name="antiphon")
            info = api.model_info(repository, revision=revision, files_metadata=True, timeout=READ_SECONDS)
            files = {item.rfilename: _hub_file(item) for item in info.siblings or ()}
            if info.sha is None:
                raise FetchError(f"{self.endpoint} did not report which commit of {repository} it listed")
            return HubListing(repository, info.sha, files)

    def download(self, listing: HubListing, file: HubFile, on_bytes: Callable[[int], None]) -> tuple[Path, bool]:
        """Return the path of a listed file in the Hugging Face cache, and whether this call downloaded it.

        The download stops once more than `file.size` bytes have arrived, whatever size the server announced.
        """
        self._require_reachable()
        from huggingface_hub import hf_hub_download

        before = self.cache.repository(listing.repository) / "snapshots" / listing.commit / file.name
        was_here = os.path.exists(before)
        if not was_here:
            self._check_space(file)
        try:
            with _quiet, self._plain_errors(listing.repository, listing.commit, file.name):
                path = hf_hub_download(
                    listing.repository,
                    file.name,
                    revision=listing.commit,
                    cache_dir=self.cache.folder,
                    endpoint=self.endpoint,
                    library_name="antiphon",
                    tqdm_class=_counter(file, on_bytes),
                )
        except _TooLargeError as error:
            blobs = self.cache.repository(listing.repository) / "blobs"
            for half in blobs.glob(f"{file.sha256}*.incomplete") if file.sha256 else ():
                half.unlink(missing_ok=True)  # some versions of the library keep it
            raise FetchError(str(error)) from None
        return Path(path), not was_here

    def _check_space(self, file: HubFile) -> None:
        folder = next(folder for folder in (self.cache.folder, *self.cache.folder.parents) if os.path.exists(folder))
        free = shutil.disk_usage(folder).free
        if free < file.size:
            raise FetchError(
                f"{file.name} needs {file.size / 1e6:,.0f} MB in the Hugging Face cache {self.cache.folder}, which has "
                f"{free / 1e6:,.0f} MB free: free some space there or set HF_HUB_CACHE to a folder on another disk"
            )

    @contextlib.contextmanager
    def _plain_errors(self, repository: str, revision: str, file: str | None = None) -> Iterator[None]:
        try:
            yield
        except (FetchError, DownloadCancelledError, _TooLargeError):
            raise
        except Exception as error:  # the library's exceptions differ between versions, as its HTTP client does
            self._raise(error, repository, revision, file)

    def _raise(self, error: Exception, repository: str, revision: str, file: str | None) -> NoReturn:
        from huggingface_hub import errors

        what = repository if file is None else f"{repository}/{file}"
        if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, errors.GatedRepoError):
            terms = f"accept its terms at {self.endpoint}/{repository}, then {LOGIN}"
            raise FetchError(f"{repository} is a gated repository: {terms}") from error
        if isinstance(error, errors.RevisionNotFoundError):
            raise FetchError(f"{repository} on {self.endpoint} has no revision {revision}") from error
        if isinstance(error, errors.EntryNotFoundError) or (file is not None and status == 404):
            raise FetchError(f"{repository} on {self.endpoint} has no file {file}") from error
        if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403, 404):
            raise FetchError(
                f"{self.endpoint} has no repository {repository}, or you have no access to it: check the name; if the "
                f"repository is private or gated, {LOGIN}"
            ) from error
        if isinstance(error, errors.HFValidationError):
            raise FetchError(f"{repository} is not a valid repository name") from error
        if status is not None:
            raise FetchError(f"{self.endpoint} answered {status} for {what}") from error
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            kind = DiskFullError if error.errno in FULL_ERRORS else FetchError
            raise kind(
                f"cannot write to the Hugging Face cache {self.cache.folder} ({error.strerror}): "
                "set HF_HUB_CACHE to another folder"
            ) from error
        raise HubUnreachableError(f"the model hub {self.endpoint} did not deliver {what} ({_cause(error)})") from error

    def _require_reachable(self, seconds: float | None = None) -> None:
        if self._is_off:
            raise HubUnreachableError("HF_HUB_OFFLINE is set, so the model hub is not contacted")
        with self._probe_lock:
            if not self._reached and time.monotonic() >= self._unreachable_until:
                self._unreachable = self._probe(REACH_SECONDS if seconds is None else seconds)
                self._reached = self._unreachable is None
                self._unreachable_until = time.monotonic() + RETRY_SECONDS
            if not self._reached:
                raise HubUnreachableError(f"the model hub {self.endpoint} is not reachable ({self._unreachable})")

    def _probe(self, seconds: float) -> str | None:
        """Return why the hub cannot be reached, or None. Runs in a thread, because a name lookup has no timeout."""
        from huggingface_hub.utils import get_session

        outcome: list[str | None] = []

        def attempt() -> None:
            try:
                with _quiet:
                    get_session().head(self.endpoint, timeout=seconds)
                outcome.append(None)
            except Exception as error:
                outcome.append(_cause(error))

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(seconds)
        return outcome[0] if outcome else f"no answer within {seconds:.0f} s"


class _TooLargeError(Exception):
    """A server sent more bytes than the file has."""


def _counter(file: HubFile, on_bytes: Callable[[int], None]) -> type:
    """Return a class with a progress bar's interface that shows nothing and stops a download that is too long."""

    class Counter:
        def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
            self.n = initial
            self.total = file.size

        def update(self, count: float | None = 1) -> None:
            self.n += int(count or 0)
            if self.n > file.size:
                raise _TooLargeError(
                    f"the server sent more than the {file.size:,} bytes of {file.name}: the download was stopped"
                )
            on_bytes(self.n)

        def __enter__(self) -> Counter:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ignore(self, *_: object, **__: object) -> None:
            pass

        # Called with bytes on the wire, which Xet storage counts separately from the file's bytes.
        update_transfer = set_transfer_postfix_str = set_postfix_str = set_description = refresh = close = ignore

    return Counter


class _Quiet:
    """A context that silences the library's warnings, because callers report errors themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._level = logging.NOTSET

    def __enter__(self) -> None:
        with self._lock:
            logger = logging.getLogger("huggingface_hub")
            if self._entered == 0:
                self._level = logger.level
                logger.setLevel(logging.ERROR)
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                logging.getLogger("huggingface_hub").setLevel(self._level)


_quiet = _Quiet()


@cache
def hub_at(endpoint: str, cache_folder: Path, is_off: bool) -> Hub:
    """Return the process's only `Hub` for these arguments."""
    return Hub(endpoint, cache_folder, is_off=is_off)


def default_hub() -> Hub:
    return hub_at(environment.hub_endpoint(), environment.hub_cache(), environment.hub_is_off())


def _hub_file(item: Any) -> HubFile:
    large = item.lfs
    size = item.size if large is None else large.size
    if large is None:
        return HubFile(item.rfilename, int(size or 0), None, item.blob_id)
    return HubFile(item.rfilename, int(size or 0), large.sha256)


def _cause(error: BaseException) -> str:
    """Return the innermost cause of an error, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return re.sub(r"^\[Errno -?\d+\] ", "", " ".join(str(reason).split()))
