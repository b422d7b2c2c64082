"""What goes wrong on the web page: keys that are missing or wrong, a server that is away, an engine that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from antiphon.runtime.process.client import EngineState
from antiphon.server.access.keys import KeyRing
from antiphon.server.setup.config import ModelSpec, ServerConfig
from support.browser.chat_view import ENDLESS, ask, last_answer, seed_options, wait_for_answer
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

pytestmark = pytest.mark.browser

KEY = "the-right-key-of-the-page"
MODEL = "smollm2-135m"
#: Chromium reports every status that is not a success.
REFUSED = r"Failed to load resource.*401"
ABSENT = r"Failed to load resource: net::ERR_"
FAILED = r"Failed to load resource.*50[03]"


@pytest.fixture(scope="module")
def keyed(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    model_path(MODEL)
    config = ServerConfig(
        models=(ModelSpec.of(MODEL),),
        keys=KeyRing([KEY]),
        files_dir=tmp_path_factory.mktemp("keyed") / "files",
        offline=True,
    )
    with running_server(config, {"kv_bytes": 64 << 20}) as running:
        yield running


@pytest.fixture
def locked(browser: Browser, keyed: RunningServer) -> Iterator[WatchedPage]:
    with watched_page(browser, keyed.url) as page:
        page.expect_fault(REFUSED)
        yield page


def test_a_key_is_asked_for_until_it_is_right_and_kept_for_the_tab(locked: WatchedPage) -> None:
    page = locked.open()
    dialog = page.get_by_role("dialog", name="API key")
    field = dialog.get_by_label("Key")
    expect(field).to_be_focused()
    locked.check_accessible()
    field.fill("a wrong key")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("The server does not accept this key.")
    field.fill(KEY)
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_have_count(0)
    seed_options(locked, max_tokens=4)
    ask(page, "Hello.")
    wait_for_answer(page)
    page.reload()
    expect(page.locator(".model-picker select")).to_have_value(MODEL)
    expect(dialog).to_have_count(0)
    assert page.evaluate("JSON.stringify(localStorage)").find(KEY) == -1


def test_without_a_key_the_page_says_so(locked: WatchedPage) -> None:
    page = locked.open()
    dialog = page.get_by_role("dialog", name="API key")
    dialog.wait_for()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("textbox", name="Message")).to_have_attribute("placeholder", "No model can answer")


def test_the_key_of_serve_open_leaves_the_address_at_once(watched: WatchedPage) -> None:
    page = watched.page
    page.goto(f"{watched.url}/#admin_key=a-token-for-this-page")
    page.locator(".view-chat").wait_for()
    assert "token" not in page.url
    assert page.evaluate("sessionStorage.getItem('antiphon.admin-key')") == "a-token-for-this-page"
    history = watched.context.new_cdp_session(page).send("Page.getNavigationHistory")
    assert not any("token" in entry["url"] for entry in history["entries"])


def test_a_server_that_is_away_is_named_and_comes_back(watched: WatchedPage) -> None:
    watched.expect_fault(ABSENT)
    page = watched.open()
    expect(page.locator(".status-word")).to_have_text("Ready")
    watched.context.set_offline(True)
    expect(page.locator(".banner")).to_contain_text("The server does not answer")
    seed_options(watched, max_tokens=4)
    ask(page, "Is anybody there?")
    expect(page.locator(".answer").get_by_role("alert")).to_contain_text("the server does not answer")
    watched.context.set_offline(False)
    expect(page.locator(".status-word")).to_have_text("Ready")
    expect(page.locator(".banner")).to_have_count(0)
    page.get_by_role("button", name="Answer again").click()
    wait_for_answer(page)


def test_the_state_of_the_server_is_shown(watched: WatchedPage, page_server: RunningServer) -> None:
    page = watched.open()
    client = page_server.serving.client
    client.state, client.cause = EngineState.RESTARTING, "killed by SIGKILL"
    try:
        expect(page.locator(".banner")).to_contain_text("The engine stopped and is being started again")
        expect(page.locator(".banner")).to_contain_text("killed by SIGKILL")
        expect(page.locator(".status-word")).to_have_text("Engine restarting")
        watched.check_accessible()
    finally:
        client.state, client.cause = EngineState.READY, None
    expect(page.locator(".status-word")).to_have_text("Ready")


def test_an_engine_that_is_killed_fails_the_answer_and_the_page_goes_on(
    watched: WatchedPage, page_server: RunningServer
) -> None:
    watched.expect_fault(FAILED)
    page = watched.open()
    seed_options(watched, **ENDLESS)
    ask(page, "Tell me a long story.")
    watched.wait_until("document.querySelector('.answer .markdown')?.textContent.length > 20")
    told = last_answer(page)
    pid = page_server.serving.client.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    expect(page.locator(".answer").get_by_role("alert")).to_contain_text("The answer failed")
    assert last_answer(page).startswith(told[:20]), "what was answered stays"
    wait_until(lambda: page_server.serving.client.pid not in (None, pid), "a new engine process")
    ready = lambda: httpx.get(page_server.url + "/readyz")  # noqa: E731
    wait_until(lambda: ready().is_success, "the server to be ready again", seen=lambda: ready().text)
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator(".status-word")).to_have_text("Ready")
    seed_options(watched, max_tokens=8, ignore_eos=False)
    page.get_by_role("button", name="Answer again").click()
    wait_for_answer(page)
    expect(page.get_by_role("group", name="Versions of the answer")).to_contain_text("2 / 2")
