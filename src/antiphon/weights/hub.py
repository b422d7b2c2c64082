"""The model hub over plain HTTPS: list a repository, download a file with resume."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from antiphon import environment
from antiphon.errors import FetchError

REACH_SECONDS = 5.0
READ_SECONDS = 60.0
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class HubFile:
    """One file of a repository as the hub lists it; only large files have a sha256 there."""

    name: str
    size: int
    sha256: str | None


class Hub:
    """One hub. Whether it can be reached is found out once, quickly; a dead one then fails every request at once."""

    def __init__(self, endpoint: str, token: str | None = None) -> None:
        self.endpoint = endpoint
        self._token = token
        self._probe_lock = threading.Lock()
        self._probed = False
        self._unreachable: str | None = None

    def files(self, repository: str) -> list[HubFile]:
        """Every file of a repository's main revision."""
        url = f"{self.endpoint}/api/models/{quote(repository)}?blobs=true"
        with self._open(url, repository) as response:
            try:
                listing: dict[str, Any] = json.load(response)
                return [_hub_file(item) for item in listing["siblings"]]
            except (ValueError, KeyError, TypeError) as error:
                raise FetchError(f"{self.endpoint} did not list the files of {repository}") from error

    def download(self, repository: str, file: str, target: Path, on_bytes: Callable[[int], None]) -> None:
        """Write a file to `target`; if `target` holds its beginning, only the rest is requested.

        A connection that breaks is taken up again where it broke, as long as each attempt brings something.
        """
        while True:
            have = target.stat().st_size if target.exists() else 0
            try:
                return self._download_rest(repository, file, target, have, on_bytes)
            except _ConnectionBrokeError as error:
                if target.stat().st_size <= have:
                    raise FetchError(str(error)) from error

    def _download_rest(
        self, repository: str, file: str, target: Path, have: int, on_bytes: Callable[[int], None]
    ) -> None:
        url = f"{self.endpoint}/{quote(repository)}/resolve/main/{quote(file)}"
        with self._open(url, f"{repository}/{file}", have) as response:
            resumed = have > 0 and response.status == 206
            done = have if resumed else 0
            length = response.headers.get("Content-Length")
            end = done + int(length) if length is not None else None
            with target.open("ab" if resumed else "wb") as stream:
                while chunk := self._read(response, done):
                    stream.write(chunk)
                    done += len(chunk)
                    on_bytes(done)
        if end is not None and done < end:
            raise _ConnectionBrokeError(self.endpoint, done)

    def _read(self, response: http.client.HTTPResponse, done: int) -> bytes:
        try:
            return response.read(CHUNK_BYTES)
        except (http.client.HTTPException, OSError) as error:
            raise _ConnectionBrokeError(self.endpoint, done) from error

    def _open(self, url: str, what: str, start: int = 0) -> Any:
        self._require_reachable()
        request = urllib.request.Request(url)
        if start:
            request.add_header("Range", f"bytes={start}-")
        if self._token:
            # Unredirected: the token is for the hub, not for the storage it redirects to.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            return urllib.request.urlopen(request, timeout=READ_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403):
                raise FetchError(f"{self.endpoint} refuses {what}: accept its terms there and set HF_TOKEN") from error
            if error.code == 404:
                raise FetchError(f"{self.endpoint} has no {what}") from error
            raise FetchError(f"{self.endpoint} answered {error.code} for {what}") from error
        except OSError as error:
            raise FetchError(f"{self.endpoint} cannot be reached ({_cause(error)})") from error

    def _require_reachable(self) -> None:
        with self._probe_lock:
            if not self._probed:
                self._unreachable = self._probe()
                self._probed = True
        if self._unreachable is not None:
            raise FetchError(f"{self.endpoint} cannot be reached ({self._unreachable})")

    def _probe(self) -> str | None:
        """Why the hub cannot be reached, or None. In a thread, because a name lookup knows no timeout."""
        outcome: list[str | None] = []

        def attempt() -> None:
            try:
                request = urllib.request.Request(self.endpoint, method="HEAD")
                urllib.request.urlopen(request, timeout=REACH_SECONDS).close()
                outcome.append(None)
            except urllib.error.HTTPError as error:
                error.close()
                outcome.append(None)
            except (OSError, ValueError, http.client.HTTPException) as error:
                outcome.append(_cause(error))

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(REACH_SECONDS)
        return outcome[0] if outcome else f"no answer within {REACH_SECONDS:.0f} s"


class _ConnectionBrokeError(Exception):
    def __init__(self, endpoint: str, done: int) -> None:
        super().__init__(f"the connection to {endpoint} broke after {done:,} bytes")


@cache
def hub_at(endpoint: str, token: str | None) -> Hub:
    """The process's one `Hub` for an address."""
    return Hub(endpoint, token)


def default_hub() -> Hub:
    return hub_at(environment.hub_endpoint(), environment.hub_token())


def _hub_file(item: dict[str, Any]) -> HubFile:
    large = item.get("lfs") or {}
    return HubFile(item["rfilename"], int(large.get("size", item.get("size", 0))), large.get("sha256"))


def _cause(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)
