"""The store and the owner of a request's files and batches."""

from __future__ import annotations

from fastapi import Request

from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import unavailable

#: Owner of files and batches on a server without keys.
ANYONE = "anyone"


def owner_name(keys: KeyRing | None, key: int | None) -> str:
    """Return the name that owns a key's files and batches on disk. It stays the same after a restart."""
    return ANYONE if keys is None or key is None else keys.owner(key)


def owner_of(request: Request) -> str:
    return owner_name(serving_of(request).config.keys, context_of(request).key)


def files_of(request: Request) -> FileStore:
    """Return the store of files. If the server has none, raise 503 with the cause."""
    files: FileStore | None = request.app.state.files
    if files is None:
        raise unavailable(request.app.state.files_failure, "files_unavailable", 30)
    return files
