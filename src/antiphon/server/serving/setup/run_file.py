"""The file that a server on a loopback address writes about itself, for commands of the same user.

The file `ANTIPHON_HOME/run/PORT-RANDOM.json` has the server's URL, process id and admin token, with which commands
manage the server, and the facts by which commands decide whether the server can compute for them. Only its owner can
read it. The server holds a lock on it while it runs, so an unlocked file was left by a server that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from antiphon import environment
from antiphon.errors import AntiphonError
from antiphon.server.web.access.hosts import is_loopback
from antiphon.server.web.access.private_folder import make_private

FILE_MODE = 0o600
MAX_FILE_BYTES = 1 << 16


class RunFileError(AntiphonError):
    """Failure to use the folder for run files."""


@dataclass(frozen=True)
class LocalServer:
    """Server that runs on this machine. A server with an admin key file has no `admin_token`."""

    url: str
    pid: int
    admin_token: str | None = field(repr=False)
    #: Version of Antiphon; empty in files of releases that did not write it.
    version: str = ""
    #: Unix time of the start.
    started: float = 0.0
    #: Models that a request may load by name: "configured", "catalog" or "hub".
    load_on_use: str = "configured"
    has_api_keys: bool = False
    #: Names of models that the server has from files or folders.
    file_models: tuple[str, ...] = ()


def new_admin_token() -> str:
    return secrets.token_urlsafe(32)


@contextmanager
def published(server: LocalServer, home: Path | None = None) -> Iterator[Path]:
    """Write the server's file, complete, locked and with mode 0600, and remove it at the end."""
    import fcntl  # not on Windows, which no server runs on

    folder = _private_folder(home)
    name = f"{urlsplit(server.url).port}-{secrets.token_hex(4)}"
    path, partial = folder / f"{name}.json", folder / f".{name}.partial"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(partial, flags, FILE_MODE)
    except OSError as error:
        raise RunFileError(f"cannot write in {folder}: {error.strerror or error}") from error
    try:
        try:
            os.fchmod(descriptor, FILE_MODE)  # regardless of the umask
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, json.dumps(asdict(server)).encode())
            partial.rename(path)
        except OSError as error:
            raise RunFileError(f"cannot write {path}: {error.strerror or error}") from error
        yield path
    finally:
        for written in (partial, path):
            with contextlib.suppress(OSError):
                written.unlink()
        os.close(descriptor)


def local_servers(home: Path | None = None) -> list[LocalServer]:
    """Return the running servers of this user, sorted by URL, and remove files of servers that have ended."""
    folder = _folder(home)
    try:
        paths = sorted(folder.glob("*.json"))
    except OSError:
        return []
    found = [server for path in paths if (server := _read(path)) is not None]
    return sorted(found, key=lambda server: server.url)


def _folder(home: Path | None) -> Path:
    return (home or environment.home()) / "run"


def _private_folder(home: Path | None) -> Path:
    """Return the folder, created if necessary, for this user only. Raise if it belongs to another user."""
    folder = _folder(home)
    try:
        if not make_private(folder):
            raise RunFileError(f"{folder} is not a folder of this user")
    except OSError as error:
        raise RunFileError(f"cannot use {folder}: {error.strerror or error}") from error
    return folder


def _read(path: Path) -> LocalServer | None:
    """Return the server that wrote the file, or None if it has ended or others can access the file."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # locked by its running server
            return _parsed(stream.read(MAX_FILE_BYTES))
        except OSError:
            return None
        with contextlib.suppress(OSError):
            path.unlink()
        return None


def _parsed(data: bytes) -> LocalServer | None:
    try:
        content: dict[str, Any] = json.loads(data)
        url, pid, token = content["url"], content["pid"], content["admin_token"]
        host = urlsplit(url).hostname
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    is_valid = isinstance(pid, int) and isinstance(token, str | None) and host is not None and is_loopback(host)
    return LocalServer(url, pid, token, **_facts(content)) if is_valid else None


def _facts(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that files of earlier releases lack; none of them if one is missing or has another type."""
    try:
        facts: dict[str, Any] = {
            "version": str(content["version"]),
            "started": float(content["started"]),
            "load_on_use": str(content["load_on_use"]),
            "has_api_keys": bool(content["has_api_keys"]),
            "file_models": tuple(map(str, content["file_models"])),
        }
    except (KeyError, TypeError, ValueError):
        return {}
    return facts
