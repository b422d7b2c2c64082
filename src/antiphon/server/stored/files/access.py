"""Which store and which owner a request has."""

from __future__ import annotations

from fastapi import Request

from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import unavailable

#: The owner of what is stored by a server without keys.
ANYONE = "anyone"


def owner_name(keys: KeyRing | None, key: int | None) -> str:
    """The name by which files and batches on disk belong to a key, the same after a restart."""
    return ANYONE if keys is None or key is None else keys.owner(key)


def owner_of(request: Request) -> str:
    return owner_name(serving_of(request).config.keys, context_of(request).key)


def files_of(request: Request) -> FileStore:
    """The store; 503 if this server has none, with the cause."""
    files: FileStore | None = request.app.state.files
    if files is None:
        raise unavailable(request.app.state.files_failure, "files_unavailable", 30)
    return files
