"""A load that is stuck: it is shown, it can be cancelled, and other models are loaded and used meanwhile."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.cli.remote.manage import _table
from antiphon.runtime.loading.model_text import ModelText
from antiphon.runtime.residency import resident as resident_module
from antiphon.runtime.residency.resident import ModelState
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until

ADMIN = "the-key-of-an-admin"


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Clear, loads of the model `stuck` do not end."""
    may_end, load = threading.Event(), ModelText.load

    def blocked(reference: str, offline: bool = False) -> ModelText:
        if Path(reference).name == "stuck":
            assert may_end.wait(120)
        return load(reference, offline)

    monkeypatch.setattr(ModelText, "load", blocked)
    monkeypatch.setattr(resident_module, "SLOW_SECONDS", 0.0)
    yield may_end
    may_end.set()


@pytest.fixture
def server(servers: ServerPool, chat_folder: Path, tmp_path: Path) -> Iterator[RunningServer]:
    folder = shutil.copytree(chat_folder, tmp_path / "stuck")
    models = (ModelSpec.of(str(chat_folder)), ModelSpec("stuck", str(folder), is_preloaded=False))
    config = ServerConfig(models=models, admin_keys=KeyRing([ADMIN]), offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


@pytest.fixture
def ask(server: RunningServer) -> Iterator[Callable[..., httpx.Response]]:
    with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {ADMIN}"}, timeout=60) as client:
        yield lambda method, path, **body: client.request(method, path, json=body or None)


def test_it_is_shown_and_cancelled(
    server: RunningServer, ask: Callable[..., httpx.Response], stuck: threading.Event
) -> None:
    model = server.serving.models.residency.models["stuck"]
    answers: list[httpx.Response] = []

    def use() -> None:
        body = {"model": "stuck", "prompt": "hello", "max_tokens": 2}
        answers.append(httpx.post(server.url + "/v1/completions", json=body, timeout=60))

    user = threading.Thread(target=use)
    user.start()
    wait_until(lambda: model.is_slow, "the load to begin")
    ready = ask("GET", "/readyz")
    assert ready.status_code == 200 and ready.json()["models"]["stuck"].startswith("loading for ")
    [warning] = ready.json()["warnings"]
    assert warning.startswith("model 'stuck' has been loading for ") and warning.endswith(" s of at most 1800 s")
    [card] = [card for card in ask("GET", "/admin/models").json()["models"] if card["name"] == "stuck"]
    assert card["state"] == "loading" and card["loading_seconds"] >= 0
    shown: dict[str, Any] = {"url": server.url, "memory": None, "models": [card]}
    assert "  loading 0s" in _table({**shown, "models": [card | {"loading_seconds": 0.2}]})
    other = ask("POST", "/v1/completions", model=server.serving.config.models[0].name, prompt="hello", max_tokens=2)
    assert other.status_code == 200
    refused = ask("POST", "/admin/models/unload", model="stuck")
    assert refused.status_code == 409 and "is being loaded for 1 request" in refused.json()["error"]["message"]
    assert ask("POST", "/admin/models/unload", model="stuck", force=True).status_code == 200
    user.join(60)
    [answer] = answers
    assert answer.status_code == 503 and "loading model 'stuck' was cancelled" in answer.json()["error"]["message"]
    assert model.state is ModelState.UNLOADED and "warnings" not in ask("GET", "/readyz").json()
    stuck.set()
    assert ask("POST", "/v1/completions", model="stuck", prompt="hello", max_tokens=2).status_code == 200


def test_an_administrator_who_leaves_cancels_the_load(server: RunningServer, stuck: threading.Event) -> None:
    model = server.serving.models.residency.models["stuck"]
    headers = {"authorization": f"Bearer {ADMIN}"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + "/admin/models/load", json={"model": "stuck"}, headers=headers, timeout=0.5)
    wait_until(lambda: model.loading is None and model.state is ModelState.UNLOADED, "the load to be cancelled")
    assert not model.uses and "stuck" not in server.serving.client.models
