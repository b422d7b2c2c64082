"""Administration and residency over HTTP: models come on use and go again, requests are listed and ended."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
import pytest

from antiphon.server.serving.setup.config import Limits, LoadOnUse, ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until, wait_until_async

API, ADMIN = "an-ordinary-key", "an-admins-own-key"
ENDLESS = {"model": "first", "prompt": "hello", "max_tokens": 4000, "ignore_eos": True}


def weight_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


@pytest.fixture(scope="module")
def folders(chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("resident")
    return [Path(shutil.copytree(chat_folder, root / name)) for name in ("first", "second", "third")]


@pytest.fixture
def administered(servers: ServerPool, folders: list[Path], encoder_folder: Path) -> Iterator[RunningServer]:
    """Three chat models of one size and an encoder; the budget holds two chat models and the encoder."""
    kv = 16 << 20
    first, second, third = (ModelSpec.of(str(folder)) for folder in folders)
    lazy = ModelSpec(third.name, third.reference, is_preloaded=False)
    budget = kv + 2 * weight_bytes(folders[0]) + weight_bytes(encoder_folder) + weight_bytes(folders[0]) // 2
    config = ServerConfig(
        models=(first, second, ModelSpec(encoder_folder.name, str(encoder_folder), is_pinned=True), lazy),
        aliases={"mine": "second"},
        keys=KeyRing([API]),
        admin_keys=KeyRing([ADMIN]),
        memory_bytes=budget,
        offline=True,
        limits=Limits(requests_per_key=6),
    )
    with servers.lease(config, {"kv_bytes": kv}) as running:
        yield running


@pytest.fixture
def ask(administered: RunningServer) -> Iterator[Callable[..., httpx.Response]]:
    """An admin's request, as `ask("GET", "/models")`."""
    headers = {"authorization": f"Bearer {ADMIN}"}
    with httpx.Client(base_url=administered.url + "/admin", headers=headers, timeout=60) as client:
        yield lambda method, path, **body: client.request(method, path, json=body or None)


@pytest.fixture
def client(administered: RunningServer) -> Iterator[openai.OpenAI]:
    with administered.openai(API) as made:
        yield made


def cards(ask: Callable[..., httpx.Response]) -> dict[str, dict[str, Any]]:
    return {card["name"]: card for card in ask("GET", "/models").json()["models"]}


def memory(ask: Callable[..., httpx.Response]) -> dict[str, Any]:
    """With the engine's own figures, which are left out if it is too busy to tell them in time."""

    def figures() -> dict[str, Any] | None:
        found: dict[str, Any] = ask("GET", "/models").json()["memory"]
        return found if found["engine_resident_bytes"] is not None else None

    found = wait_until(figures, "the engine's own figures")
    assert found is not None
    return found


def complete(client: openai.OpenAI, model: str, **more: Any) -> str:
    answer = client.completions.create(model=model, prompt="hello", max_tokens=4, temperature=0, extra_body=more)
    return answer.choices[0].text


def test_only_admin_keys_open(administered: RunningServer, server: RunningServer) -> None:
    url = administered.url + "/admin/models"
    for key in (API, "wrong-wrong"):
        refused = httpx.get(url, headers={"authorization": f"Bearer {key}"})
        assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
    admin = {"authorization": f"Bearer {ADMIN}"}
    assert httpx.get(url, headers=admin).status_code == 200
    assert httpx.get(administered.url + "/v1/models", headers=admin).status_code == 401
    for path in ("/admin", "/admin/models", "/admin/nothing"):
        shut = httpx.get(server.url + path, headers=admin)
        assert shut.status_code == 403 and shut.json()["error"]["code"] == "admin_disabled"


def test_models_come_on_use_and_the_least_recently_used_goes(
    ask: Callable[..., httpx.Response], client: openai.OpenAI, folders: list[Path]
) -> None:
    before = cards(ask)
    assert [before[name]["state"] for name in ("first", "second", "bert", "third")] == ["ready"] * 3 + ["unloaded"]
    assert before["second"]["aliases"] == ["mine"] and before["bert"]["pinned"]
    wanted = complete(client, "first")
    assert complete(client, "mine") == complete(client, "third") == wanted  # the same weights, under three names
    after = cards(ask)
    assert [after[name]["state"] for name in ("first", "second", "bert", "third")] == [
        "unloaded", "ready", "ready", "ready",
    ]  # fmt: skip
    assert after["third"]["weight_bytes"] == before["first"]["weight_bytes"] and after["third"]["last_use"] > 0
    told = memory(ask)
    assert told["weight_bytes"] == sum(card["weight_bytes"] or 0 for card in after.values())
    assert told["kv_bytes"] + told["weight_bytes"] + told["free_bytes"] == told["budget_bytes"]
    assert told["free_bytes"] >= 0 and told["engine_resident_bytes"] > 1 << 24
    assert client.models.retrieve("first").to_dict()["state"] == "unloaded"
    assert complete(client, "first") == wanted
    assert cards(ask)["second"]["state"] == "unloaded"


def test_keep_alive_of_a_request(ask: Callable[..., httpx.Response], client: openai.OpenAI) -> None:
    complete(client, "first", keep_alive=0)
    wait_until(lambda: cards(ask)["first"]["state"] == "unloaded", "the model to be unloaded", seen=lambda: cards(ask))
    complete(client, "first", keep_alive="2m")
    assert 100 < cards(ask)["first"]["expires"] - time.time() < 121
    complete(client, "first")
    assert cards(ask)["first"]["expires"] is None
    with pytest.raises(openai.BadRequestError, match="keep_alive"):
        complete(client, "first", keep_alive="soon")


def test_nobody_in_use_is_unloaded(
    ask: Callable[..., httpx.Response], client: openai.OpenAI, administered: RunningServer
) -> None:
    streams = [
        client.completions.create(
            model=name, prompt="hello", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
        )
        for name in ("first", "second")
    ]
    for stream in streams:
        next(iter(stream))
    with pytest.raises(openai.InternalServerError, match=r"'third' needs .* beside first, second, bert") as busy:
        complete(client, "third")
    assert busy.value.code == "memory_busy" and "retry-after" in busy.value.response.headers
    refused = ask("POST", "/models/unload", model="first")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "model_in_use"
    assert ask("POST", "/models/unload", model="first", force=True).json()["state"] == "unloaded"
    with pytest.raises(openai.APIError, match="cancelled"):
        for _ in streams[0]:
            pass
    for stream in streams:
        stream.close()
    wait_until(lambda: not cards(ask)["second"]["requests"], "the model to be idle", seen=lambda: cards(ask))
    assert complete(client, "third")
    administered.wait_until_idle()


def test_loading_and_unloading_by_an_admin(ask: Callable[..., httpx.Response], client: openai.OpenAI) -> None:
    assert ask("POST", "/models/load", model="first", pinned=True, keep_alive="1h").json()["state"] == "ready"
    card = cards(ask)["first"]
    assert card["pinned"] and card["keep_alive"] == 3600 and 3500 < card["expires"] - time.time() < 3601
    complete(client, "second")
    complete(client, "third")
    assert cards(ask)["first"]["state"] == "ready"
    assert ask("POST", "/models/load", model="first", pinned=False, keep_alive=-1).json()["pinned"] is False
    unloaded = ask("POST", "/models/unload", model="first").json()
    assert unloaded["state"] == "unloaded" and unloaded["charged_bytes"] == 0 and unloaded["weight_bytes"] is None
    unknown = ask("POST", "/models/load", model="frist")
    assert unknown.status_code == 404 and "did you mean first" in unknown.json()["error"]["message"]
    path = ask("POST", "/models/load", model=card["reference"])
    assert path.status_code == 404
    assert ask("POST", "/models/load", model="first", speed=9).json()["error"]["code"] == "unknown_parameter"


def test_catalog_models_and_their_size(ask: Callable[..., httpx.Response], client: openai.OpenAI) -> None:
    """A model of the catalog is known but is not here, and nothing may be fetched."""
    known = {card["name"]: card for card in ask("GET", "/models").json()["catalog"]}
    assert known["smollm2-135m"]["bytes"] > 1e7 and "first" not in known
    with pytest.raises(openai.BadRequestError, match="is an embedding model"):
        client.completions.create(model="all-minilm-l6-v2", prompt="a")
    with pytest.raises(openai.BadRequestError, match="is a speech model"):
        client.completions.create(model="kokoro-82m", prompt="a")
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="silero-vad", prompt="a")


def test_paths_and_hub_references_of_clients_are_unknown(client: openai.OpenAI, folders: list[Path]) -> None:
    for name in (str(folders[0]), "hub:owner/repository", "../first", "./first"):
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model=name, prompt="a")


def test_a_pull_tells_its_progress(
    ask: Callable[..., httpx.Response], administered: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from antiphon.server.serving import downloads
    from antiphon.server.serving.admin import pulls
    from antiphon.weights.catalog.fetch import FetchProgress
    from antiphon.weights.catalog.resolve import ResolvedModel

    async def fetch(
        reference: str, offline: bool, report: Callable[[FetchProgress], None], cancelled: threading.Event
    ) -> ResolvedModel:
        report(FetchProgress(reference, "the hub is not reachable.", 0, 100, is_notice=True))
        for done in (10, 60):
            report(FetchProgress(reference, "fetching", done, 100))
            await wait_until_async(lambda: done in told, f"{done} bytes to be told", seen=lambda: told)  # noqa: B023
        return ResolvedModel(reference, "gguf", Path(__file__), {"a": Path(__file__)}, None)

    refused = ask("POST", "/models/pull", model="smollm2-135n")
    assert refused.status_code == 404 and "smollm2-135m" in refused.json()["error"]["message"]
    assert ask("POST", "/models/pull", model="/etc/passwd").status_code == 404
    told: list[int] = []
    card = pulls.progress_card

    def noted(update: FetchProgress) -> dict[str, Any]:
        told.append(update.done)
        return card(update)

    monkeypatch.setattr(pulls, "progress_card", noted)
    monkeypatch.setattr(downloads, "fetch_model", fetch)
    lines = [line[6:] for line in ask("POST", "/models/pull", model="smollm2-135m").text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    events = [orjson.loads(line) for line in lines]
    assert [event.get("completed_bytes") for event in events] == [0, 10, 60, None]
    assert events[0]["status"] == "the hub is not reachable."
    assert events[-1] == {"status": "success", "model": "smollm2-135m", "bytes": Path(__file__).stat().st_size}
    assert ask("POST", "/models/pull", model="smollm2-135m", stream=False).json()["status"] == "success"


@pytest.mark.parametrize("stream", [True, False])
def test_requests_are_listed_and_ended(
    ask: Callable[..., httpx.Response], administered: RunningServer, stream: bool
) -> None:
    headers = {"authorization": f"Bearer {API}", "x-request-id": f"mine/{stream}"}
    answers: list[httpx.Response] = []

    def request() -> None:
        body = {**ENDLESS, "stream": stream}
        answers.append(httpx.post(administered.url + "/v1/completions", json=body, headers=headers, timeout=60))

    thread = threading.Thread(target=request)
    thread.start()

    def mine() -> dict[str, Any] | None:
        listed = ask("GET", "/requests").json()["requests"]
        return next((one for one in listed if one["id"] == f"mine/{stream}" and one["model"] == "first"), None)

    card = wait_until(lambda: administered.figures()["running"] == 1 and mine(), "the request to run")
    assert card and card["path"] == "/v1/completions" and card["key"] == 0 and card["seconds"] > 0
    assert ask("DELETE", f"/requests/mine/{stream}").json() == {"cancelled": 1}
    thread.join(120)
    (answer,) = answers
    assert answer.headers["x-request-id"] == f"mine/{stream}"
    last = answer.text.strip().splitlines()[-1].removeprefix("data: ")
    assert orjson.loads(last)["error"]["code"] == "cancelled"
    assert answer.status_code == (200 if stream else 499)
    administered.wait_until_idle()
    assert mine() is None and cards(ask)["first"]["requests"] == 0
    assert ask("DELETE", "/requests/nobody").status_code == 404


def test_a_key_has_so_many_requests_at_once(administered: RunningServer, client: openai.OpenAI) -> None:
    details = dict(model="first", prompt="a", max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
    streams = [client.completions.create(**details) for _ in range(6)]
    with pytest.raises(openai.RateLimitError, match="6 requests in flight; at most 6 are allowed") as limited:
        client.completions.create(**details)
    assert limited.value.code == "too_many_requests" and limited.value.response.headers["retry-after"] == "1"
    streams.pop().close()
    requests = administered.serving.requests
    wait_until(lambda: len(requests) == 5, "the request's end", seen=lambda: list(requests))
    client.completions.create(**details).close()
    for stream in streams:
        stream.close()
    administered.wait_until_idle()


@pytest.mark.slow
def test_devices(ask: Callable[..., httpx.Response]) -> None:
    loaded = ask("POST", "/models/load", model="second", device="cpu")
    assert loaded.status_code == 200 and loaded.json()["device"] == "cpu"
    moved = ask("POST", "/models/load", model="second", device="cuda:7")
    assert moved.status_code == 409 and "is loaded on cpu; unload it first" in moved.json()["error"]["message"]
    assert ask("POST", "/models/load", model="second", device="gpu").status_code == 400
    ask("POST", "/models/unload", model="second")
    failed = ask("POST", "/models/load", model="second", device="cuda:7")
    assert failed.status_code >= 400 and "device" in failed.json()["error"]["message"]
    assert ask("POST", "/models/load", model="second", device="cpu").status_code in (200, 503)
    told = memory(ask)
    [cpu] = told["devices"]
    assert cpu["device"] == "cpu" and cpu["kv_lent_bytes"] is not None
    assert {name: told[name] for name in cpu if name != "device"} == {n: v for n, v in cpu.items() if n != "device"}


def test_a_model_too_large_for_the_budget(servers: ServerPool, folders: list[Path]) -> None:
    """It is told with both numbers; the others are served."""
    kv, size = 16 << 20, weight_bytes(folders[0])
    config = ServerConfig(models=(ModelSpec.of(str(folders[0])),), memory_bytes=kv + size - 1, offline=True)
    with servers.lease(config, {"kv_bytes": kv}) as running:
        told = httpx.get(running.url + "/readyz").json()
        assert told["status"] == "failed" and f"budget is {kv + size - 1:,} bytes" in told["models"]["first"]
        answer = httpx.post(running.url + "/v1/completions", json={"model": "first", "prompt": "a"})
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "model_too_large"
        assert f"needs {size:,} bytes" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_what_fits_only_alone_waits_for_its_use(servers: ServerPool, folders: list[Path]) -> None:
    kv, size = 16 << 20, weight_bytes(folders[0])
    specs = tuple(ModelSpec.of(str(folder)) for folder in folders[:2])
    config = ServerConfig(
        models=specs, memory_bytes=kv + size, offline=True, load_on_use=LoadOnUse.CONFIGURED, keep_alive=0
    )
    with servers.lease(config, {"kv_bytes": kv}) as running, running.openai() as client:
        told = httpx.get(running.url + "/readyz").json()
        assert told["status"] == "ready" and told["models"] == {"first": "ready", "second": "unloaded"}
        assert complete(client, "second") and complete(client, "default-chat")
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="smollm2-135m", prompt="a")
