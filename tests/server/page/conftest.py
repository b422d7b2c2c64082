"""A browser, and servers with small real models for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from antiphon.server.access.keys import KeyRing
from antiphon.server.setup.config import ModelSpec, ServerConfig
from support.browser.admin_view import ADMIN_KEY, CHAT_MODEL, SPEECH_MODEL, TRANSCRIPTION_MODEL
from support.browser.chromium import chromium
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer, running_server

MODELS = (CHAT_MODEL, SPEECH_MODEL, TRANSCRIPTION_MODEL)


@pytest.fixture(scope="session")
def page_server(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Without API keys, with an admin key, as a server on a loopback address is."""
    for name in MODELS:
        model_path(name)
    config = ServerConfig(
        models=tuple(ModelSpec.of(name) for name in MODELS),
        admin_keys=KeyRing([ADMIN_KEY]),
        files_dir=tmp_path_factory.mktemp("page") / "files",
        offline=True,
    )
    with running_server(config, {"kv_bytes": 256 << 20}) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def watched(browser: Browser, page_server: RunningServer) -> Iterator[WatchedPage]:
    """The page on a wide screen, light; the end checks the console and where requests went."""
    with watched_page(browser, page_server.url) as page:
        yield page
