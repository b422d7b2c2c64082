"""A browser, and servers with small real models for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from antiphon.server.serving.setup.config import Limits, ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import SessionLimits
from support.browser.admin_view import (
    ADMIN_KEY,
    API_KEY,
    CHAT_MODEL,
    MAX_RECORDING,
    SPEECH_MODEL,
    TRANSCRIPTION_MODEL,
)
from support.browser.watched_page import WatchedPage, watched_page
from support.fetching.registries import LocalHub
from support.server.fetching_server import tiny_hub
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

MODELS = (CHAT_MODEL, SPEECH_MODEL, TRANSCRIPTION_MODEL)


@pytest.fixture(scope="module")
def hub(chat_folder: Path) -> Iterator[LocalHub]:
    """Hub with a tiny chat model, `HUB_MODEL`."""
    with tiny_hub(chat_folder) as made:
        yield made


@pytest.fixture
def page_server(servers: ServerPool, model_path: Callable[[str], Path], stored_files: Path) -> Iterator[RunningServer]:
    """A server without API keys and with an admin key, as on a loopback address."""
    for name in MODELS:
        model_path(name)
    config = ServerConfig(
        models=tuple(ModelSpec.of(name) for name in MODELS),
        admin_keys=KeyRing([ADMIN_KEY]),
        limits=Limits(audio_bytes=MAX_RECORDING),
        files_dir=stored_files / "page",
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 256 << 20}) as running:
        yield running


@pytest.fixture
def keyed_server(servers: ServerPool, model_path: Callable[[str], Path], stored_files: Path) -> Iterator[RunningServer]:
    """A server with an API key and one voice session at a time, which loads a model when it is first used."""
    for name in MODELS:
        model_path(name)
    config = ServerConfig(
        models=tuple(ModelSpec(name, name, is_preloaded=False) for name in MODELS),
        keys=KeyRing([API_KEY]),
        limits=Limits(sessions=SessionLimits(sessions=1)),
        files_dir=stored_files / "page-keyed",
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 64 << 20}) as running:
        yield running


@pytest.fixture
def watched(profile: BrowserContext, page_server: RunningServer) -> Iterator[WatchedPage]:
    """The page on a wide screen, light; the end checks the console and where requests went."""
    with watched_page(profile, page_server.url) as page:
        yield page
