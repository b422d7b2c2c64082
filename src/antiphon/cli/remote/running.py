"""`running_server`: the server on this machine that computes for a command whose user names no server.

A command without a server on this machine only looks into a folder: other imports are in the functions that need them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon import __version__, environment
from antiphon.cli.remote.address import ServerAddress, api_key
from antiphon.cli.terminal.notes import note
from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    from antiphon.server.serving.setup.run_file import LocalServer

#: Longest wait for a server's state, in seconds: a server that hangs delays a command no longer.
LOOK_SECONDS = 1.0
READY = "ready"
FAILED = "failed"
#: Statuses and error codes of a server that cannot compute for a command: no access, no such model, too busy, no
#: memory, too much sound at once, a model that only continues texts.
UNABLE = (401, 403, 404, 413, 429, 502, 503, 504)
UNABLE_CODES = ("model_too_large", "invalid_template")


def running_server(models: Collection[str], key_file: Path | None = None) -> ServerAddress | None:
    """Return a running server of this user, with this version and models folder, that can compute with the models.

    Among several, choose a server that holds all models in memory, else the newest. Return None without such a server.
    """
    if not has_run_files():
        return None
    from antiphon.server.serving.setup.run_file import local_servers

    key = api_key(key_file)
    newest_first = sorted(local_servers(), key=lambda server: server.started, reverse=True)
    able: ServerAddress | None = None
    for server in newest_first:
        if server.version != __version__ or (server.has_api_keys and key is None):
            continue
        address = ServerAddress.parse(server.url, key, is_found=True)
        states = _model_states(address, server.has_api_keys)
        if states is None or not all(_can_serve(name.lower(), server, states) for name in models):
            continue
        if all(states.get(name.lower()) == READY for name in models):
            return address
        able = able or address
    return None if environment.offline() else able  # a server may download what it does not hold


def has_run_files() -> bool:
    """Return whether servers of this user may run; reading their files needs more imports."""
    try:
        return any(name.endswith(".json") for name in os.listdir(environment.home() / "run"))
    except (OSError, AntiphonError):
        return False


def _model_states(address: ServerAddress, has_api_keys: bool) -> dict[str, str] | None:
    """Return the states of a ready server's models by name, or None for a server that is not ready or rejects the key.

    Names are in lower case, as in the catalog.
    """
    from antiphon.cli.remote.client import Client, ServerError

    client = Client(address, LOOK_SECONDS)
    try:
        with client.get("/readyz") as response:
            models = response.json()["models"]
        if has_api_keys:
            client.get("/v1/models").close()
        return {str(name).lower(): str(state) for name, state in models.items()}
    except (ServerError, KeyError, TypeError, AttributeError):
        return None


def _can_serve(name: str, server: LocalServer, states: dict[str, str]) -> bool:
    """Return whether the server has the model or may load it by name. A file of the same name is another model."""
    from antiphon.weights.catalog.references import HUB_PREFIX, is_file_reference

    if is_file_reference(name) or name in {own.lower() for own in server.file_models}:
        return False
    if name in states:
        return not states[name].startswith(FAILED)
    allowed = ("hub",) if name.startswith(HUB_PREFIX) else ("hub", "catalog")
    return server.load_on_use in allowed


@contextmanager
def local_if_unable(server: ServerAddress) -> Iterator[None]:
    """Suppress the error of a server that the command found itself and that has not begun to answer, with a note.

    The command then computes in this process. Errors of other servers, and of requests, are raised.
    """
    try:
        yield
    except AntiphonError as error:
        if not is_unable(server, error):
            raise
        note_unable(server, error)


def is_unable(server: ServerAddress, error: AntiphonError) -> bool:
    """Return whether the command found the server itself, and the error says that it does not compute now."""
    from antiphon.cli.remote.client import ServerError, UnreachableError

    if not (server.is_found and isinstance(error, ServerError)):
        return False
    return isinstance(error, UnreachableError) or error.status in UNABLE or error.code in UNABLE_CODES


def note_unable(server: ServerAddress, error: AntiphonError) -> None:
    from antiphon.cli.remote.client import UnreachableError

    cause = f"the server at {server.url} has ended" if isinstance(error, UnreachableError) else str(error)
    note(f"{cause}; loading the model here")
