"""`/page/models`: what the page may offer, what is still to be downloaded, and models prepared ahead of a request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.models.base.companions import COMPANIONS
from antiphon.models.registry import architectures
from antiphon.server.page import missing_files
from antiphon.server.page.missing_files import MissingFiles
from antiphon.server.serving.setup.config import ModelSpec
from antiphon.weights.catalog.catalog import catalog
from support.fetching.registries import LocalHub, Registries
from support.server.fetching_server import HUB_MODEL, fetching_server
from support.server.http_server import RunningServer
from support.waiting import wait_until

API, ADMIN = "an-ordinary-key", "an-admins-own-key"
HEADERS = {"authorization": f"Bearer {API}"}
Card = dict[str, Any]


@pytest.fixture(scope="module")
def fetching(hub: LocalHub, chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with an empty models folder, whose packages come from an empty folder."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as environment:
        Registries(folder / "packages", environment)
        extra = (ModelSpec(HUB_MODEL, HUB_MODEL, is_preloaded=False),)
        with fetching_server(hub, chat_folder, folder, ADMIN, API, extra) as running:
            yield running


def told(server: RunningServer) -> dict[str, Any]:
    answer = httpx.get(server.url + "/page/models", headers=HEADERS)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def card_of(server: RunningServer, name: str) -> Card:
    return next(card for card in told(server)["data"] if card["id"] == name)


def prepare(server: RunningServer, name: str) -> httpx.Response:
    return httpx.post(server.url + "/page/models/load", json={"model": name}, headers=HEADERS)


def prepared(server: RunningServer, name: str) -> Card:
    """Prepare a model; return its card once the preparation has ended."""
    assert prepare(server, name).status_code == 202
    return wait_until(lambda: (card := card_of(server, name)) and not card["is_preparing"] and card, "its end")


def test_the_page_is_offered_defaults_that_the_lists_of_apis_do_not_name(server: RunningServer) -> None:
    content = told(server)
    offered = {card["id"]: card for card in content["data"]}
    assert not content["can_download"]
    assert offered["tiny-chat"]["missing_bytes"] == 0 and offered["tiny-chat"]["task"] == "generate"
    assert offered["whisper-base.en"]["task"] == "transcribe" and offered["hibari-6m"]["task"] == "synthesize"
    assert offered["smart-turn"]["task"] == "end-of-turn"
    plain = {card["id"] for card in httpx.get(server.url + "/v1/models").json()["data"]}
    assert not {"hibari-6m", "smart-turn"} & plain
    refused = prepare(server, "kokoro-82m")
    assert refused.status_code == 404 and refused.json()["error"]["code"] == "model_not_found"


def test_the_routes_need_the_key_of_the_api_and_no_other(fetching: RunningServer) -> None:
    assert httpx.get(fetching.url + "/page/models").status_code == 401
    assert httpx.post(fetching.url + "/page/models/load", json={"model": HUB_MODEL}).status_code == 401
    assert httpx.get(fetching.url + "/page/models", headers={"authorization": f"Bearer {ADMIN}"}).status_code == 401


def test_the_sizes_include_companions_and_are_those_of_the_catalog(fetching: RunningServer) -> None:
    sizes = {name: entry.size for name, entry in catalog().items()}
    speech, hearing = card_of(fetching, "hibari-6m"), card_of(fetching, "whisper-base.en")
    assert speech["missing"] == ["hibari-6m", "english-phonemes"]
    assert speech["missing_bytes"] == sizes["hibari-6m"] + sizes["english-phonemes"]
    assert hearing["missing_bytes"] == sizes["whisper-base.en"] + sizes["silero-vad"]
    assert card_of(fetching, HUB_MODEL)["missing_bytes"] is None, "the hub was not asked yet"


def test_companions_by_task_are_those_that_the_models_declare() -> None:
    declared = {(str(found.task), found.companions) for found in architectures().values() if found.companions}
    assert declared == set(COMPANIONS.items())


def test_a_model_is_prepared_once_for_all_who_ask_reported_cancelled_and_tried_again(
    fetching: RunningServer, hub: LocalHub
) -> None:
    hub.stall = threading.Event()
    try:
        before = len(hub.downloads())
        assert [prepare(fetching, HUB_MODEL).json()["is_preparing"] for _ in range(2)] == [True, True]
        progress = lambda: card_of(fetching, HUB_MODEL)["progress"]  # noqa: E731
        wait_until(lambda: hub.downloads()[before:] and progress(), "the beginning of the download")
        assert progress()["completed_bytes"] < progress()["total_bytes"]
        assert set(progress()) == {"completed_bytes", "total_bytes"}, "neither addresses nor paths"
        assert len(hub.downloads()) == before + 1

        models = fetching.serving.models
        cancelled = models.residency.cancel_load(models.find(HUB_MODEL))
        asyncio.run_coroutine_threadsafe(cancelled, fetching.loop).result(60)
        ended = wait_until(lambda: (card := card_of(fetching, HUB_MODEL))["error"] and card, "the end of the load")
        assert "was cancelled" in ended["error"] and not ended["is_preparing"]
        assert prepare(fetching, HUB_MODEL).json()["error"] is None
    finally:
        hub.stall.set()
        hub.stall = None
    done = wait_until(lambda: (card := card_of(fetching, HUB_MODEL))["state"] == "ready" and card, "the loaded model")
    assert (done["missing_bytes"], done["progress"], done["error"]) == (0, None, None)


def test_a_failed_download_is_reported_and_tried_again_at_once(fetching: RunningServer) -> None:
    before = prepared(fetching, "hibari-6m")
    assert "hibari-tts==0.2.1" in before["error"] and before["state"] != "ready"
    assert card_of(fetching, "hibari-6m")["error"] == before["error"], "it stays for pages that are opened later"
    requests: list[str] = []
    models = fetching.serving.models
    original, models.acquire_detector = models.acquire_detector, _noted(requests)  # type: ignore[method-assign]
    try:
        prepared(fetching, "hibari-6m")
        assert requests, "no wait of 30 s as between requests of the API"
    finally:
        models.acquire_detector = original  # type: ignore[method-assign]


def _noted(requests: list[str]) -> Callable[[str], Any]:
    async def acquire(name: str) -> None:
        requests.append(name)

    return acquire


def test_offline_a_model_that_is_not_here_cannot_be_prepared(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    card = prepared(server, "smart-turn")
    assert "downloads are off" in card["error"] and card["missing_bytes"] == catalog()["smart-turn"].size
    assert prepared(server, "tiny-chat")["state"] == "ready"


def test_the_disk_is_looked_at_in_a_thread_and_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[list[str], bool]] = []

    def sizes(references: list[str]) -> dict[str, int | None]:
        looks.append((list(references), threading.current_thread() is threading.main_thread()))
        return dict.fromkeys(references, 5)

    monkeypatch.setattr(missing_files, "_sizes", sizes)
    monkeypatch.setattr(missing_files, "LOOK_SECONDS", 3600.0)

    async def look() -> None:
        files = MissingFiles()
        assert await asyncio.gather(*(files.look(["a", "b"]) for _ in range(5))) == [{"a": 5, "b": 5}] * 5
        assert await files.look(["b", "c"]) == {"b": 5, "c": 5}

    asyncio.run(look())
    assert looks == [(["a", "b"], False), (["c"], False)]
