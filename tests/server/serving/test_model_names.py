"""What clients may call a model: `name:latest`, OpenAI's names, an adapter without its model; and the suggestions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from websockets.sync.client import connect

from antiphon.runtime.residency.resident import ModelState
from antiphon.server.apis.wyoming.events import WantedVoice
from antiphon.server.apis.wyoming.offers import OfferedModel, Offers
from antiphon.server.serving.models import ServedModels
from antiphon.server.serving.setup.config import AdapterSpec, LoadOnUse, ModelSpec, ServerConfig
from antiphon.server.serving.setup.launch_plan import LaunchPlan
from antiphon.server.serving.setup.openai_names import without_version
from antiphon.server.serving.setup.settings import ServerSettings
from antiphon.server.web.access.keys import KeyRing
from support.models.adapters import random_pairs, write_peft
from support.models.tiny_model import tiny_state
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until

HELLO = [{"role": "user", "content": "hello"}]
CHAT = {"messages": HELLO, "max_tokens": 2}


@pytest.mark.parametrize(
    ("path", "name", "body"),
    [
        ("/v1/chat/completions", "tiny-chat", CHAT),
        ("/v1/completions", "tiny-chat", {"prompt": "a", "max_tokens": 2}),
        ("/v1/responses", "tiny-chat", {"input": "a", "max_output_tokens": 2}),
        ("/v1/messages", "tiny-chat", CHAT),
        ("/v1/messages/count_tokens", "tiny-chat", {"messages": HELLO}),
        ("/v1/embeddings", "bert", {"input": "a"}),
        ("/v1/rerank", "bert", {"query": "a", "documents": ["b"]}),
        ("/tokenize", "tiny-chat", {"prompt": "a"}),
        ("/api/chat", "tiny-chat", {"messages": HELLO, "options": {"num_predict": 2}}),
        ("/api/embed", "bert", {"input": "a"}),
        ("/api/show", "bert", {}),
        ("/v1/chat/completions", "default-chat", CHAT),
    ],
)
def test_latest_finds_the_model_on_every_route(
    server: RunningServer, path: str, name: str, body: dict[str, Any]
) -> None:
    answer = httpx.post(server.url + path, json={"model": f"{name}:latest", **body}, timeout=60)
    assert answer.status_code == 200, answer.text


def test_latest_in_addresses_and_sessions(server: RunningServer) -> None:
    assert httpx.get(server.url + "/v1/models/bert:latest").json()["root"] == "bert"
    for name in ("tiny-chat:latest", "gpt-realtime:latest"):
        with connect(f"{server.url.replace('http', 'ws')}/v1/realtime?model={name}") as session:
            assert json.loads(session.recv(timeout=30))["type"] == "session.created"
    answer = httpx.post(
        server.url + "/v1/audio/speech", json={"model": "tiny-chat:latest", "input": "a", "voice": "alloy"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_model")
    speaker = OfferedModel("kokoro-82m", "", "", True, voices=(("af_heart", "en-us"),))
    assert Offers([], [speaker]).speaker_for(WantedVoice("kokoro-82m:latest")) == ("kokoro-82m", None)


@pytest.mark.parametrize(
    ("path", "name", "near"),
    [
        ("/v1/audio/speech", "kokoro-82", "did you mean kokoro-82m?"),
        ("/v1/chat/completions", "whisper-bse.en", "available: "),
        ("/v1/embeddings", "all-minlm", "did you mean all-minilm-l6-v2?"),
    ],
)
def test_suggestions_are_of_the_task(server: RunningServer, path: str, name: str, near: str) -> None:
    body = {"input": "a", "voice": "alloy"} if "chat" not in path else CHAT
    answer = httpx.post(server.url + path, json={"model": name, **body}, timeout=60)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 404 and near in message and "whisper" not in message.partition(": ")[2]


def test_suggestions_are_distinct(servers: ServerPool, chat_folder: Path, encoder_folder: Path) -> None:
    models = (ModelSpec.of(str(chat_folder)), ModelSpec("smollm2-135m", str(encoder_folder)))
    config = ServerConfig(models=models, offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        answer = httpx.get(running.url + "/v1/models/smolm2-135m")
    message = answer.json()["error"]["message"]
    assert answer.status_code == 404 and "did you mean" in message
    near = message.partition("did you mean ")[2].removesuffix("?").split(" or ")
    assert "smollm2-135m" in near and len(set(near)) == len(near)


def test_ollama_stop_unloads_an_embedding_model(server: RunningServer) -> None:
    bert = server.serving.models.find("bert")
    for path in ("/api/generate", "/api/chat", "/api/embed", "/api/embeddings"):
        asked = httpx.post(server.url + "/v1/embeddings", json={"model": "bert", "input": "a"}, timeout=60)
        assert asked.status_code == 200 and bert.state is ModelState.READY
        stopped = httpx.post(server.url + path, json={"model": "bert:latest", "keep_alive": 0}, timeout=60)
        assert stopped.status_code == 200, stopped.text
        if path == "/api/generate":
            assert stopped.json()["done_reason"] == "unload"
        wait_until(lambda: bert.state is ModelState.UNLOADED, "the unloaded model", seen=lambda: bert.state)
        again = httpx.post(server.url + path, json={"model": "bert", "keep_alive": 0}, timeout=60)
        assert again.status_code == 200 and bert.state is ModelState.UNLOADED
    loaded = httpx.post(server.url + "/api/generate", json={"model": "bert"}, timeout=60)
    assert loaded.status_code == 400  # as Ollama has it: an embedding model does not generate


def roots(server: RunningServer) -> dict[str, str]:
    return {card["id"]: card["root"] for card in httpx.get(server.url + "/v1/models").json()["data"]}


def test_openai_stands_for_its_names(servers: ServerPool, chat_folder: Path, encoder_folder: Path) -> None:
    flags = {"models": [str(chat_folder), str(encoder_folder)], "aliases": ["openai", "gpt-5=bert"], "offline": True}
    plan = LaunchPlan.of(ServerSettings.gather(flags)).config
    assert plan.has_openai_names and plan.aliases == {"gpt-5": "bert"}
    with servers.lease(plan, {"kv_bytes": 16 << 20}) as running:
        found = roots(running)
        for name in ("gpt-4o", "gpt-4o-mini", "gpt-4.1-nano", "gpt-3.5-turbo", "o3-mini", "gpt-realtime"):
            assert found[name] == "tiny-chat"
        for name in ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002", "gpt-5"):
            assert found[name] == "bert"
        assert found["whisper-1"] == "whisper-base.en" and found["tts-1"] == found["gpt-4o-mini-tts"] == "hibari-6m"
        for name in ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", "gpt-4o-mini:latest"):
            answer = httpx.post(running.url + "/v1/chat/completions", json={"model": name, **CHAT}, timeout=60)
            assert answer.json()["model"] == "tiny-chat", answer.text
        wrong = httpx.post(running.url + "/v1/chat/completions", json={"model": "gpt-4o-mini-best", **CHAT})
        assert wrong.status_code == 404


def test_without_that_alias_chat_names_are_unknown(server: RunningServer) -> None:
    assert not {"gpt-4o-mini", "text-embedding-3-small"} & set(roots(server))


def test_the_alias_openai_in_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_ALIASES", "openai,small=smollm2-135m")
    given = ServerSettings.gather({})
    assert given["aliases"] == {"openai": "", "small": "smollm2-135m"}
    monkeypatch.delenv("ANTIPHON_ALIASES")
    written = tmp_path / "server.toml"
    written.write_text(given.toml())
    assert ServerSettings.gather({}, written)["aliases"] == given["aliases"]
    named = ServerSettings.gather(
        {"aliases": ["openai=smollm2-135m"], "preload": False}
    )  # a model may have that alias too
    assert LaunchPlan.of(named).config.aliases == {"openai": "smollm2-135m"}


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-3.5-turbo-0125", "gpt-3.5-turbo"),
        ("gpt-4o-extra", "gpt-4o-extra"),
        ("mine-2024-01-01", "mine-2024-01-01"),
    ],
)
def test_versions_of_openai_names(name: str, plain: str) -> None:
    assert without_version(name) == plain


@pytest.fixture(scope="module")
def adapter_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_peft(tmp_path_factory.mktemp("named") / "one", random_pairs(tiny_state(), 8, 1), 16)


@pytest.fixture
def adapted(
    servers: ServerPool, chat_folder: Path, plain_folder: Path, adapter_folder: Path
) -> Iterator[RunningServer]:
    """`stories` is an adapter of one model, `both` of two."""
    names = (("tiny-chat", "stories"), ("tiny-chat", "both"), ("tiny-plain", "both"))
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)), ModelSpec.of(str(plain_folder))),
        adapters=tuple(AdapterSpec(base, name, str(adapter_folder)) for base, name in names),
        admin_keys=KeyRing(["key-of-the-administrator"]),
        load_on_use=LoadOnUse.CONFIGURED,
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


def test_a_bare_adapter_name(adapted: RunningServer) -> None:
    def answer(name: str, path: str = "/v1/chat/completions") -> httpx.Response:
        return httpx.post(adapted.url + path, json={"model": name, "stream": False, **CHAT}, timeout=60)

    for name in ("stories", "stories:latest"):
        assert answer(name).json()["model"] == "tiny-chat:stories"
    assert answer("stories", "/v1/messages").json()["model"] == "tiny-chat:stories"
    assert httpx.get(adapted.url + "/v1/models/stories").json()["root"] == "tiny-chat:stories"
    several = answer("both")
    assert several.status_code == 404
    assert several.json()["error"]["message"].endswith("did you mean tiny-chat:both or tiny-plain:both?")
    assert answer("storie").status_code == 404


def test_a_model_wins_over_an_adapter_and_over_latest() -> None:
    """A name that is a model's as it stands is not read as a tag or an adapter."""
    models = (ModelSpec("a", "/a"), ModelSpec("a:latest", "/b"), ModelSpec("x", "/x"))
    adapters = (AdapterSpec("a", "x", "/one"), AdapterSpec("a", "smollm2-135m", "/two"))
    served = ServedModels(ServerConfig(models=models, adapters=adapters, memory_bytes=1 << 30), Mock())
    assert [served.find(name).reference for name in ("a", "a:latest", "x", "a:x")] == ["/a", "/b", "/x", "/one"]
    assert served.known("smollm2-135m").reference == served.known("smollm2-135m:latest").reference == "smollm2-135m"
