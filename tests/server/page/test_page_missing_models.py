"""Views of the web page without their models: not offered, not on the disk of an offline server, or not delivered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from antiphon.server.serving.setup.config import LoadOnUse, ModelSpec, ServerConfig
from support.browser.chat_view import ask, choose_model, seed_options, wait_for_answer
from support.browser.watched_page import WatchedPage, watched_page
from support.fetching.registries import Registries
from support.server.fetching_server import HUB_MODEL, fetching_server, tiny_hub
from support.server.pool import ServerPool

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A models folder without models, and no source of packages."""
    Registries(tmp_path / "packages", monkeypatch)
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))


@pytest.fixture
def watched(
    profile: BrowserContext,
    servers: ServerPool,
    chat_folder: Path,
    stored_files: Path,
    empty_home: None,
    request: pytest.FixtureRequest,
) -> Iterator[WatchedPage]:
    """The page of an offline server with a chat model, which may load what the test's parameter says."""
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)),),
        load_on_use=request.param,
        files_dir=stored_files / "missing",
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 16 << 20}) as server, watched_page(profile, server.url) as page:
        yield page


@pytest.mark.parametrize("watched", [LoadOnUse.CONFIGURED], indirect=True)
def test_a_server_that_may_load_nothing_says_how_it_gets_a_model(watched: WatchedPage) -> None:
    page = watched.page
    for view, heading in (("speak", "No speech model"), ("transcribe", "No transcription model")):
        watched.open(view)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        expect(page.locator(".empty")).to_contain_text("without --load-on-use configured")
        expect(page.locator(".empty").get_by_role("link", name="Models")).to_have_attribute("href", "#/models")
        watched.check_accessible()
    watched.open("talk")
    expect(page.get_by_text("This server has no transcription model and no speech model")).to_be_visible()
    expect(page.get_by_role("link", name="Models of this server")).to_have_attribute("href", re.compile("#/models"))
    assert page.get_by_role("button", name="Start talking").count() == 0
    watched.check_accessible()


@pytest.mark.parametrize("watched", [LoadOnUse.CATALOG], indirect=True)
def test_an_offline_server_says_which_models_it_cannot_get(watched: WatchedPage) -> None:
    page = watched.open("talk")
    for names in ("whisper-base.en silero-vad", "hibari-6m english-phonemes"):
        notice = page.get_by_role("note").filter(has_text=names.partition(" ")[0])
        expect(notice).to_contain_text("downloads nothing (offline)")
        expect(notice).to_contain_text(f"antiphon pull {names}")
    watched.check_accessible()
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("alert").first).to_contain_text("downloads are off")
    expect(page.get_by_role("button", name="Start talking")).to_be_visible()
    watched.open("speak")
    page.get_by_label("Text", exact=True).fill("Anything.")
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("alert")).to_contain_text("hibari-6m was not loaded")


def test_a_download_that_failed_at_the_start_is_tried_again_on_the_page(
    profile: BrowserContext, chat_folder: Path, tmp_path: Path, empty_home: None
) -> None:
    with tiny_hub(chat_folder) as hub:
        hub.status = 500
        with (
            fetching_server(
                hub, chat_folder, tmp_path, "an-admins-own-key", models=(ModelSpec.of(HUB_MODEL),)
            ) as server,
            watched_page(profile, server.url) as watched,
        ):
            choose_model(watched.page, HUB_MODEL)
            page = watched.open()
            seed_options(watched, max_tokens=4)
            expect(page.locator(".status-word")).to_have_text("Model missing")
            expect(page.locator(".banner")).to_contain_text(
                f"could not be loaded. Others work. (failed to load: {HUB_MODEL})"
            )
            failure = page.locator(".chat-foot").get_by_role("alert")
            expect(failure).to_contain_text("answered 500 for owner/tiny")
            ask(page, "Is anybody there?")
            expect(page.locator(".answer").get_by_role("alert")).to_have_text(
                f"The answer failed: the model {HUB_MODEL} could not be loaded"
            )
            watched.check_accessible()
            hub.status = None
            failure.get_by_role("button", name="Try again").click()
            expect(page.locator(".model-states")).to_have_count(0)
            page.get_by_role("button", name="Answer again").click()
            wait_for_answer(page)
            expect(page.locator(".status-word")).to_have_text("Ready")
