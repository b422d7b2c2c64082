"""One server for all tests, with a tiny chat model and a tiny encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from antiphon.server.config import Limits, ModelSpec, ServerConfig
from support.http_server import TOOL_TEMPLATE, RunningServer, running_server, write_random_bert
from support.tiny_model import write_folder


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("served") / "tiny-chat", chat_template=TOOL_TEMPLATE)


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_bert(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(chat_folder: Path, encoder_folder: Path) -> Iterator[RunningServer]:
    specs = tuple(ModelSpec.of(str(folder)) for folder in (chat_folder, encoder_folder))
    config = ServerConfig(models=specs, limits=Limits(body_bytes=1 << 20, choices=16), offline=True)
    with running_server(config, {"kv_bytes": 16 << 20, "max_waiting": 32, "max_running": 8}) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with server.openai() as made:
        yield made
