"""Adapters over HTTP: named `model:adapter`, loaded and unloaded like models, charged to the same budget."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import torch

from antiphon.server.serving.setup.config import AdapterSpec, ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.models.adapters import random_pairs, write_peft
from support.models.tiny_model import tiny_state
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until

ADMIN = "an-admins-own-key"
Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two adapters of the same size, one that is too large for the budget, and one for another model."""
    root = tmp_path_factory.mktemp("adapters")
    other = {"model.layers.0.self_attn.q_proj": (torch.zeros(4, 80), torch.zeros(64, 4))}
    return {
        "one": write_peft(root / "one", random_pairs(tiny_state(), 8, 1), 16),
        "two": write_peft(root / "two", random_pairs(tiny_state(), 8, 2), 16),
        "large": write_peft(root / "large", random_pairs(tiny_state(), 2000, 3), 16),
        "other": write_peft(root / "other", other, 8),
    }


@pytest.fixture
def adapted(servers: ServerPool, chat_folder: Path, folders: dict[str, Path]) -> Iterator[RunningServer]:
    """One model with one adapter; the budget has room for a few more of its size."""
    kv = 16 << 20
    size = sum(path.stat().st_size for path in (*chat_folder.glob("*.safetensors"), *folders["one"].iterdir()))
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)),),
        adapters=(AdapterSpec(chat_folder.name, "one", str(folders["one"])),),
        aliases={"mine": chat_folder.name},
        admin_keys=KeyRing([ADMIN]),
        memory_bytes=kv + 2 * size,
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": kv, "batch_invariant": True}) as running:
        yield running


@pytest.fixture
def ask(adapted: RunningServer) -> Iterator[Ask]:
    headers = {"authorization": f"Bearer {ADMIN}"}
    with httpx.Client(base_url=adapted.url + "/admin", headers=headers, timeout=60) as client:
        yield lambda method, path, **body: client.request(method, path, json=body or None)


@pytest.fixture
def client(adapted: RunningServer) -> Iterator[openai.OpenAI]:
    with adapted.openai() as made:
        yield made


def text(client: openai.OpenAI, model: str) -> str:
    return client.completions.create(model=model, prompt="hello", max_tokens=12, temperature=0).choices[0].text


def memory(ask: Ask) -> int:
    charged: int = ask("GET", "/models").json()["memory"]["weight_bytes"]
    return charged


def test_a_configured_adapter(client: openai.OpenAI, chat_folder: Path) -> None:
    base = chat_folder.name
    listed = {model.id: model for model in client.models.list()}
    card: Any = listed[f"{base}:one"]
    assert (card.root, card.parent, card.state, card.task) == (f"{base}:one", base, "ready", "generate")
    assert listed[base].parent is None  # type: ignore[attr-defined]
    assert client.models.retrieve(f"{base}:one").id == f"{base}:one"
    assert text(client, f"{base}:one") != text(client, base)
    assert text(client, "mine:one") == text(client, f"{base}:one")  # with an alias of its model
    messages: Any = [{"role": "user", "content": "hello"}]
    answer = client.chat.completions.create(model=f"{base}:one", messages=messages, max_tokens=4)
    assert answer.model == f"{base}:one"


def test_in_one_batch(client: openai.OpenAI, ask: Ask, chat_folder: Path, folders: dict[str, Path]) -> None:
    base = chat_folder.name
    ask("POST", "/models/load", model=f"{base}:two", adapter=str(folders["two"])).raise_for_status()
    names = [base, f"{base}:one", f"{base}:two"]
    alone = [text(client, name) for name in names]
    together: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda index=index: together.update({index: text(client, names[index % 3])}))
        for index in range(9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[index] for index in range(9)] == alone * 3
    assert len(set(alone)) == 3
    ask("POST", "/models/unload", model=f"{base}:two").raise_for_status()


def test_loading_and_unloading(ask: Ask, client: openai.OpenAI, chat_folder: Path, folders: dict[str, Path]) -> None:
    name, before = f"{chat_folder.name}:new-1.0", memory(ask)
    card = ask("POST", "/models/load", model=name, adapter=str(folders["two"]), keep_alive="5m").json()
    assert (card["name"], card["state"], card["keep_alive"]) == (name, "ready", 300)
    assert memory(ask) - before == card["charged_bytes"] == card["weight_bytes"] > 0
    assert text(client, name)
    again = ask("POST", "/models/load", model=name, adapter=str(folders["one"]))
    assert (again.status_code, "another path" in again.text) == (409, True)
    assert ask("POST", "/models/unload", model=name).json()["state"] == "unloaded"
    assert memory(ask) == before
    with pytest.raises(openai.NotFoundError, match="did you mean"):
        text(client, name)


def test_unloading_while_in_use(ask: Ask, client: openai.OpenAI, chat_folder: Path) -> None:
    base = chat_folder.name
    name = f"{base}:one"
    more: Any = {"ignore_eos": True}
    stream = client.completions.create(model=name, prompt="hello", max_tokens=4000, stream=True, extra_body=more)
    next(iter(stream))
    for model in (name, base):
        refused = ask("POST", "/models/unload", model=model)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "model_in_use")
    assert ask("POST", "/models/unload", model=name, force=True).json()["state"] == "unloaded"
    with pytest.raises(openai.APIError, match="cancelled"):
        list(stream)
    assert text(client, name)  # configured: the next use loads it again


def test_unloading_the_model_unloads_its_adapters(ask: Ask, client: openai.OpenAI, chat_folder: Path) -> None:
    base = chat_folder.name
    expected = text(client, f"{base}:one")

    def requests() -> dict[str, Any]:
        return {card["name"]: card["requests"] for card in ask("GET", "/models").json()["models"]}

    wait_until(lambda: not any(requests().values()), "all models to be idle", seen=requests)
    ask("POST", "/models/unload", model=base).raise_for_status()
    assert memory(ask) == 0
    assert {model.state for model in client.models.list() if model.root.startswith(base)} == {"unloaded"}  # type: ignore[attr-defined]
    assert text(client, f"{base}:one") == expected


def test_the_engine_comes_back_with_its_adapters(
    adapted: RunningServer, client: openai.OpenAI, chat_folder: Path
) -> None:
    import os
    import signal

    name = f"{chat_folder.name}:one"
    expected = text(client, name)
    engine = adapted.serving.client
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: engine.pid not in (None, pid) and engine.state == "ready", "a new engine", seen=lambda: engine.state
    )
    assert name in engine.models
    assert text(client, name) == expected


def test_what_is_rejected(
    ask: Ask, client: openai.OpenAI, chat_folder: Path, folders: dict[str, Path], tmp_path: Path
) -> None:
    base = chat_folder.name
    before = memory(ask)
    broken = Path(shutil.copytree(folders["one"], tmp_path / "broken"))
    (broken / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    dora = write_peft(tmp_path / "dora", random_pairs(tiny_state(), 4, 1), 8, use_dora=True)
    pairs = random_pairs(tiny_state(), 4, 1)
    next(iter(pairs.values()))[0][0, :2] = torch.tensor([torch.nan, -torch.inf])
    endless = write_peft(tmp_path / "endless", pairs, 8)
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    cases = [
        (f"{base}:x", endless, 400, "q_proj.lora_A.weight' has 2 values of NaN or infinity"),
        (f"{base}:x", fifo, 400, "it is a FIFO, not a regular file"),
        (f"{base}:x", folders["other"], 400, "has shape [4, 80]; model"),
        (f"{base}:x", broken, 400, "claims a header"),
        (f"{base}:x", dora, 400, "use_dora = True is not supported"),
        (f"{base}:x", folders["large"], 400, "the memory budget is"),
        (f"{base}:x", tmp_path / "nothing", 404, "there is no adapter"),
        (f"{base}:a b", folders["one"], 400, "is not valid"),
        (f"{base}:one:two", folders["one"], 400, "is an adapter itself"),
        ("x", folders["one"], 400, "names no model"),
        ("nobody:x", folders["one"], 404, "there is no model 'nobody'"),
    ]
    for name, path, status, message in cases:
        answer = ask("POST", "/models/load", model=name, adapter=str(path))
        assert (answer.status_code, message in answer.json()["error"]["message"]) == (status, True), answer.text
    assert memory(ask) == before
    assert f"{base}:x" not in {model.id for model in client.models.list()}
    with pytest.raises(openai.NotFoundError, match=f"did you mean {base}:one"):
        text(client, f"{base}:onn")


def test_a_request_without_a_model_means_the_base(adapted: RunningServer, client: openai.OpenAI) -> None:
    body = {"prompt": "hello", "max_tokens": 12, "temperature": 0}
    answer = httpx.post(adapted.url + "/v1/completions", json=body, timeout=60).json()
    assert answer["model"] == "tiny-chat" and answer["choices"][0]["text"] == text(client, "tiny-chat")


def test_a_deleted_adapter_is_forgotten_unless_configured(
    adapted: RunningServer, ask: Ask, chat_folder: Path, folders: dict[str, Path]
) -> None:
    base = chat_folder.name
    ask("POST", "/models/load", model=f"{base}:gone", adapter=str(folders["two"])).raise_for_status()
    ask("POST", "/models/load", model=f"{base}:one").raise_for_status()
    with adapted.openai(ADMIN) as admin:
        assert admin.models.delete(f"{base}:gone").deleted and admin.models.delete(f"{base}:one").deleted
        names = {model.id for model in admin.models.list()}
    assert f"{base}:gone" not in names and f"{base}:one" in names


def test_other_apis_without_a_model_mean_the_base_too(adapted: RunningServer) -> None:
    messages = [{"role": "user", "content": "hello"}]
    for path, body in (
        ("/v1/messages", {"messages": messages, "max_tokens": 2}),
        ("/api/chat", {"messages": messages, "stream": False, "options": {"num_predict": 2}}),
        ("/api/generate", {"prompt": "hello", "stream": False, "options": {"num_predict": 2}}),
        ("/api/generate", {"keep_alive": -1}),
    ):
        answer = httpx.post(adapted.url + path, json=body, timeout=60)
        assert answer.status_code == 200 and answer.json()["model"] == "tiny-chat", answer.text
    counted = httpx.post(adapted.url + "/v1/messages/count_tokens", json={"messages": messages}, timeout=60)
    assert counted.json()["input_tokens"] > 0
    refused = httpx.post(adapted.url + "/api/embed", json={"input": "hello"}, timeout=60)
    assert refused.status_code == 400 and "model is missing" in refused.json()["error"]
