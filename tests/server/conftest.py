"""Tiny models, and two pooled servers with them that most tests use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from tokenizers import Tokenizer

from antiphon.server.serving.setup.config import Limits, ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.models.tiny_model import write_folder
from support.server.http_server import TOOL_TEMPLATE, RunningServer, write_random_bert
from support.server.pool import ServerPool


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("served") / "tiny-chat", chat_template=TOOL_TEMPLATE)


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_bert(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with Llama 3's template for tools, its control token before calls, and tokens to fill in the middle."""
    source = (Path(__file__).parent.parent / "text" / "templates" / "llama3.jinja").read_text(encoding="utf-8")
    folder = write_folder(tmp_path_factory.mktemp("served") / "tiny-llama3", chat_template=source)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["<|python_tag|>", "<|eot_id|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def thinker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose template opens the reasoning."""
    source = TOOL_TEMPLATE.replace("assistant\n{% endif %}", "assistant\n<think>{% endif %}")
    return write_folder(tmp_path_factory.mktemp("served") / "tiny-thinker", chat_template=source)


@pytest.fixture(scope="session")
def plain_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose template knows no tools."""
    source = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}<|assistant|>"
    return write_folder(tmp_path_factory.mktemp("served") / "tiny-plain", chat_template=source)


@pytest.fixture(scope="session")
def stored_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder above those that servers store files in."""
    return tmp_path_factory.mktemp("stored")


@pytest.fixture
def server(
    servers: ServerPool,
    chat_folder: Path,
    encoder_folder: Path,
    llama_folder: Path,
    thinker_folder: Path,
    plain_folder: Path,
    stored_files: Path,
) -> Iterator[RunningServer]:
    """Without keys, with five models, and few requests at once."""
    folders = (chat_folder, encoder_folder, llama_folder, thinker_folder, plain_folder)
    specs = tuple(ModelSpec.of(str(folder)) for folder in folders)
    limits = Limits(body_bytes=1 << 20, choices=16)
    config = ServerConfig(models=specs, limits=limits, offline=True, files_dir=stored_files / "server")
    with servers.lease(config, {"kv_bytes": 16 << 20, "max_waiting": 32, "max_running": 8}) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with server.openai() as made:
        yield made


STORE_KEYS = ("first-store-key", "second-store-key")


@pytest.fixture
def shared(servers: ServerPool, chat_folder: Path, stored_files: Path) -> Iterator[RunningServer]:
    """With two keys, and little room for what it stores."""
    limits = Limits(
        body_bytes=1 << 16,
        stored_responses=8,
        stored_bytes=100_000,
        files=4,
        files_bytes=60_000,
        file_bytes=20_000,
        batch_requests=50,
        batch_concurrency=4,
    )
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)),),
        keys=KeyRing(list(STORE_KEYS)),
        limits=limits,
        files_dir=stored_files / "shared",
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


@pytest.fixture
def owners(shared: RunningServer) -> Iterator[tuple[openai.OpenAI, openai.OpenAI]]:
    """Clients with the two keys."""
    with shared.openai(STORE_KEYS[0]) as first, shared.openai(STORE_KEYS[1]) as second:
        yield first, second
