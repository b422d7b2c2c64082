"""Local hub with a tiny model, and a server that fetches from it into an empty folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.fetching.registries import LocalHub, local_hub
from support.server.http_server import RunningServer, running_server

#: Name of the hub's only model.
HUB_MODEL = "hub:owner/tiny"


@contextmanager
def tiny_hub(model_folder: Path) -> Iterator[LocalHub]:
    files = {f"owner/tiny/{path.name}": path.read_bytes() for path in model_folder.iterdir() if path.is_file()}
    with local_hub(files) as hub:
        yield hub


@contextmanager
def fetching_server(
    hub: LocalHub,
    model_folder: Path,
    folder: Path,
    admin_key: str,
    api_key: str | None = None,
    models: tuple[ModelSpec, ...] = (),
) -> Iterator[RunningServer]:
    """Run a server with a folder's model and `models`, an empty models folder below `folder`, and the hub as source."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTIPHON_HOME", str(folder / "home"))
        environment.setenv("HF_ENDPOINT", hub.endpoint)
        environment.setenv("HF_HUB_CACHE", str(folder / "cache"))
        environment.delenv("HF_HUB_OFFLINE", raising=False)
        environment.delenv("ANTIPHON_OFFLINE", raising=False)
        config = ServerConfig(
            models=(ModelSpec.of(str(model_folder)), *models),
            keys=None if api_key is None else KeyRing([api_key]),
            admin_keys=KeyRing([admin_key]),
        )
        with running_server(config, {"kv_bytes": 16 << 20}) as running:
            yield running
