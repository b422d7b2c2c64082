"""Models fetched, cancelled, loaded and deleted over HTTP, from a hub on this machine, and every way that it fails."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from antiphon.weights.catalog import hub as hub_module
from support.fetching.registries import LocalHub
from support.server.fetching_server import HUB_MODEL, fetching_server, tiny_hub
from support.server.http_server import RunningServer
from support.waiting import wait_until

API, ADMIN = "an-ordinary-key", "an-admins-own-key"
Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def hub(chat_folder: Path) -> Iterator[LocalHub]:
    with tiny_hub(chat_folder) as made:
        yield made


@pytest.fixture(scope="module")
def served(hub: LocalHub, chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with fetching_server(hub, chat_folder, tmp_path_factory.mktemp("pulls"), ADMIN, API) as running:
        yield running


@pytest.fixture
def ask(served: RunningServer) -> Iterator[Ask]:
    """An admin's request, as `ask("POST", "/pull", model=HUB_MODEL)`. Every test begins and ends without the model."""
    headers = {"authorization": f"Bearer {ADMIN}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=60) as client:

        def send(method: str, path: str, **body: Any) -> httpx.Response:
            return client.request(method, "/admin/models" + path, json=body or None)

        yield send
        send("POST", "/delete", model=HUB_MODEL)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def listed(ask: Ask, name: str = HUB_MODEL) -> dict[str, Any] | None:
    """The model's card, wherever it is listed."""
    content = ask("GET", "").json()
    return next((card for card in (*content["models"], *content["catalog"]) if card["name"] == name), None)


def test_a_model_is_fetched_loaded_used_unloaded_and_deleted(
    ask: Ask, served: RunningServer, chat_folder: Path
) -> None:
    assert listed(ask) is None
    told = events(ask("POST", "/pull", model=HUB_MODEL))
    assert told[-1]["status"] == "success" and told[-1]["bytes"] > 0
    assert any(one.get("total_bytes") for one in told)
    card = listed(ask)
    assert card is not None and card["is_here"] and not card["is_catalog"] and card["bytes"] == told[-1]["bytes"]
    assert ask("POST", "/load", model=HUB_MODEL, pinned=True).json()["state"] == "ready"
    card = listed(ask)
    assert card is not None and card["pinned"] and card["is_here"] and card["bytes"] == told[-1]["bytes"]
    refused = ask("POST", "/delete", model=HUB_MODEL)
    assert refused.status_code == 409 and "is loaded; unload it" in refused.json()["error"]["message"]
    assert ask("POST", "/unload", model=HUB_MODEL).json()["state"] == "unloaded"
    deleted = ask("POST", "/delete", model=HUB_MODEL).json()
    assert deleted["freed_bytes"] >= 0 and deleted["model"] == HUB_MODEL
    assert listed(ask) is None
    again = ask("POST", "/delete", model=HUB_MODEL)
    assert again.status_code == 404 and again.json()["error"]["code"] == "model_not_found"
    assert ask("POST", "/delete", model=chat_folder.name).status_code == 400 and chat_folder.exists()
    own = listed(ask, chat_folder.name)
    assert own is not None and own["is_here"] and own["bytes"] is None and not own["is_stored"]


def test_the_list_has_the_catalog_the_disk_and_downloads(ask: Ask) -> None:
    content = ask("GET", "").json()
    assert content["downloads"] == [] and content["disk"]["free_bytes"] > 0
    known = {card["name"]: card for card in content["catalog"]}
    assert not known["smollm2-135m"]["is_here"] and known["smollm2-135m"]["is_catalog"]
    assert known["smollm2-135m"]["title"] and known["smollm2-135m"]["licence"]


def test_a_download_is_shared_shown_and_cancelled(ask: Ask, hub: LocalHub, served: RunningServer) -> None:
    hub.stall = threading.Event()
    before = len(hub.downloads())
    answers: list[httpx.Response] = []
    headers = {"authorization": f"Bearer {ADMIN}"}

    def pull() -> None:
        answers.append(
            httpx.post(served.url + "/admin/models/pull", json={"model": HUB_MODEL}, headers=headers, timeout=60)
        )

    def running() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask("GET", "").json()["downloads"]
        return found

    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(hub.downloads()) > before and running(), "the download")
    pulls = lambda: [one for one in served.serving.requests if one.path == "/admin/models/pull"]  # noqa: E731
    wait_until(lambda: len(pulls()) == 2, "both requests", seen=pulls)
    [card] = running()
    assert card["model"] == HUB_MODEL
    refused = ask("POST", "/delete", model=HUB_MODEL)
    assert refused.status_code == 409 and "being downloaded" in refused.json()["error"]["message"]
    assert ask("POST", "/pull/cancel", model=HUB_MODEL).json() == {"model": HUB_MODEL, "cancelled": True}
    for thread in threads:
        thread.join(120)
    assert [events(answer)[-1]["error"]["code"] for answer in answers] == ["download_cancelled"] * 2
    assert running() == [] and len(hub.downloads()) == before + 1
    gone = ask("POST", "/pull/cancel", model=HUB_MODEL)
    assert gone.status_code == 404 and gone.json()["error"]["code"] == "download_not_found"
    hub.stall.set()
    hub.stall = None
    assert events(ask("POST", "/pull", model=HUB_MODEL))[-1]["status"] == "success"
    assert ask("POST", "/pull", model=HUB_MODEL, stream=False).json()["status"] == "success"


def test_a_damaged_file_is_not_kept(ask: Ask, hub: LocalHub) -> None:
    name = next(name for name in hub.files if name.endswith(".safetensors"))
    hub.sent[name] = bytes(len(hub.files[name]))
    error = events(ask("POST", "/pull", model=HUB_MODEL))[-1]["error"]
    assert "sha256" in error["message"] and error["code"] == "model_load_failed"
    card = listed(ask)
    assert card is None or not card["is_here"]
    hub.sent.clear()
    assert events(ask("POST", "/pull", model=HUB_MODEL))[-1]["status"] == "success"


def test_no_space(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(total=1 << 40, used=1 << 40, free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert "free" in events(ask("POST", "/pull", model=HUB_MODEL))[-1]["error"]["message"]
    refused = ask("POST", "/pull", model=HUB_MODEL, stream=False)
    assert refused.status_code == 503 and "MB free" in refused.json()["error"]["message"]
    assert ask("GET", "").json()["disk"]["free_bytes"] == 10


def test_the_network_is_away(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub_module, "REACH_SECONDS", 5.0)
    error = events(ask("POST", "/pull", model=HUB_MODEL))[-1]["error"]
    assert "not reachable" in error["message"]


def test_unknown_models_and_those_who_may_not(ask: Ask, served: RunningServer) -> None:
    for path in ("/pull", "/delete"):
        unknown = ask("POST", path, model="smollm2-135n")
        assert unknown.status_code == 404 and unknown.json()["error"]["code"] == "model_not_found"
        assert ask("POST", path, model="/etc/passwd").status_code == 404
        assert ask("POST", path, model="tiny-chat").status_code == 400
    assert ask("POST", "/delete", model="smollm2-135m").status_code == 404
    assert ask("POST", "/pull", model="hub:nobody/nothing", stream=False).status_code == 503
    for path in ("", "/pull", "/pull/cancel", "/delete", "/load", "/unload"):
        method = "POST" if path else "GET"
        for key in (API, "wrong"):
            headers = {"authorization": f"Bearer {key}"}
            url = served.url + "/admin/models" + path
            assert httpx.request(method, url, headers=headers, json={"model": HUB_MODEL}).status_code == 401
