"""The view of the models: one is fetched, cancelled, fetched again, loaded, pinned, unloaded and deleted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from support.browser.admin_view import ADMIN_KEY, open_as_admin
from support.browser.watched_page import WatchedPage, watched_page
from support.fetching.registries import LocalHub
from support.server.fetching_server import HUB_MODEL, fetching_server
from support.server.http_server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]


@pytest.fixture(scope="module")
def fetching(hub: LocalHub, chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with fetching_server(hub, chat_folder, tmp_path_factory.mktemp("page-models"), ADMIN_KEY) as running:
        yield running


@pytest.fixture
def watched(profile: BrowserContext, fetching: RunningServer) -> Iterator[WatchedPage]:
    with watched_page(profile, fetching.url) as page:
        yield page


def row(page: Page, name: str = HUB_MODEL) -> Locator:
    return page.locator(f".model[data-model='{name}']")


def test_a_model_is_found_fetched_loaded_and_deleted(watched: WatchedPage, hub: LocalHub, chat_folder: Path) -> None:
    page = open_as_admin(watched, "models")
    expect(row(page, chat_folder.name)).to_have_attribute("data-state", "ready")
    expect(row(page, "smollm2-135m").get_by_role("button", name="Fetch smollm2-135m")).to_be_visible()
    expect(row(page, "kokoro-82m")).to_be_visible()
    name = page.get_by_label("Find a model")
    name.fill("whisper")
    expect(row(page, "kokoro-82m")).to_have_count(0)
    expect(row(page, "whisper-tiny.en")).to_be_visible()
    name.fill("")
    page.get_by_label("Task").select_option("Speech")
    expect(row(page, "kokoro-82m")).to_be_visible()
    expect(row(page, "whisper-tiny.en")).to_have_count(0)
    expect(page.get_by_label("Task").get_by_role("option", name="Text")).to_have_count(0)  # called Chat, as the view
    name.fill("no such name")
    expect(page.locator(".nothing")).to_contain_text("No model for the task Speech has “no such name” in its name.")
    watched.check_accessible()
    page.get_by_role("button", name="Show all models").click()
    expect(row(page, "whisper-tiny.en")).to_be_visible()

    name.fill(HUB_MODEL)
    hub.stall = threading.Event()
    page.get_by_role("button", name="Fetch", exact=True).click()
    download = page.locator(".downloads")
    expect(download.get_by_role("progressbar")).to_be_visible()
    download.get_by_role("button", name="Cancel").click()
    expect(download).to_have_count(0)
    expect(row(page)).to_have_count(0)
    hub.stall.set()
    hub.stall = None
    page.get_by_role("button", name="Fetch", exact=True).click()
    expect(row(page)).to_have_attribute("data-state", "stored")
    row(page).get_by_role("button", name="Load").click()
    expect(row(page)).to_have_attribute("data-state", "ready")
    expect(row(page).locator(".swatch")).to_be_visible()  # its colour in the bar of the memory
    expect(page.locator(".memory-keys")).not_to_contain_text(HUB_MODEL)
    pin = row(page).get_by_role("button", name="Pin")
    pin.click()
    expect(row(page).get_by_role("button", name="Unpin")).to_have_attribute("aria-pressed", "true")
    row(page).get_by_role("button", name="Unload").click()
    expect(row(page)).to_have_attribute("data-state", "stored")
    row(page).get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep").click()
    expect(row(page)).to_have_attribute("data-state", "stored")
    row(page).get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row(page)).to_have_count(0)


@pytest.mark.slow
def test_a_download_that_fails_says_why(watched: WatchedPage, hub: LocalHub) -> None:
    page = open_as_admin(watched, "models")
    weights = next(name for name in hub.files if name.endswith(".safetensors"))
    hub.sent[weights] = bytes(len(hub.files[weights]))
    try:
        page.get_by_label("Find a model").fill(HUB_MODEL)
        page.get_by_role("button", name="Fetch", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("sha256")
    finally:
        hub.sent.clear()
    page.get_by_role("button", name="Close this message").click()
    expect(page.get_by_role("alert")).to_have_count(0)
