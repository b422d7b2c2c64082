"""What goes wrong on the web page: keys that are missing or wrong, a server that is away, an engine that is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect

from antiphon.runtime.process.client import EngineState
from support.browser.admin_view import (
    ADMIN_KEY,
    API_KEY,
    CHAT_MODEL,
    enter_admin_key,
    give_key,
    kill_engine,
    open_as_admin,
)
from support.browser.chat_view import ENDLESS, ask, last_answer, seed_options, wait_for_answer, wait_for_characters
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

#: Chromium reports every status that is not a success.
REFUSED = r"Failed to load resource.*401"
ABSENT = r"Failed to load resource: net::ERR_"
FAILED = r"Failed to load resource.*50[03]"


@pytest.fixture
def locked(profile: BrowserContext, keyed_server: RunningServer) -> Iterator[WatchedPage]:
    with watched_page(profile, keyed_server.url) as page:
        page.expect_fault(REFUSED)
        yield page


def test_a_key_is_asked_for_until_it_is_right_and_kept_for_the_tab(locked: WatchedPage) -> None:
    page = locked.open()
    dialog = page.get_by_role("dialog", name="API key")
    expect(dialog.get_by_label("Key")).to_be_focused()
    locked.check_accessible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("textbox", name="Message")).to_have_attribute("placeholder", "No model can answer")

    page.reload()
    dialog.get_by_label("Key").fill("a wrong key")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("The server does not accept this key.")
    give_key(page, API_KEY)
    expect(dialog).to_have_count(0)
    seed_options(locked, max_tokens=2)
    ask(page, "Hello.")
    wait_for_answer(page)
    page.reload()
    expect(page.locator(".model-picker select")).to_have_value(CHAT_MODEL)
    expect(dialog).to_have_count(0)
    assert page.evaluate("JSON.stringify(localStorage)").find(API_KEY) == -1


@pytest.mark.slow
def test_a_wrong_admin_key_is_asked_for_again_where_the_server_gives_none(watched: WatchedPage) -> None:
    watched.expect_fault("status of 40[13]")
    page = watched.page
    enter_admin_key(page, "a-token-of-another-server")
    watched.open("engine")
    dialog = page.get_by_role("dialog", name="Admin key")
    expect(dialog.get_by_role("alert")).to_contain_text("does not accept this key")
    expect(dialog.get_by_role("alert")).to_contain_text("in the file given by --admin-key-file")
    watched.check_accessible()
    dialog.get_by_label("Key").fill(ADMIN_KEY)
    page.keyboard.press("Enter")
    expect(page.locator(".feed-state")).to_have_text("Live")


def test_a_server_that_is_away_is_named_and_comes_back(watched: WatchedPage) -> None:
    watched.expect_fault(ABSENT)
    page = watched.open()
    expect(page.locator(".status-word")).to_have_text("Ready")
    seed_options(watched, max_tokens=2)
    watched.context.set_offline(True)
    ask(page, "Is anybody there?")
    expect(page.locator(".answer").get_by_role("alert")).to_contain_text("the server does not answer")
    expect(page.locator(".banner")).to_contain_text("The server does not answer")
    watched.context.set_offline(False)
    expect(page.locator(".status-word")).to_have_text("Ready")
    expect(page.locator(".banner")).to_have_count(0)
    page.get_by_role("button", name="Answer again").click()
    wait_for_answer(page)


@pytest.mark.slow
def test_the_state_of_the_server_is_shown(watched: WatchedPage, page_server: RunningServer) -> None:
    client = page_server.serving.client
    client.state, client.cause = EngineState.RESTARTING, "killed by SIGKILL"
    try:
        page = watched.open()
        expect(page.locator(".banner")).to_contain_text("The engine stopped and is being started again")
        expect(page.locator(".banner")).to_contain_text("killed by SIGKILL")
        expect(page.locator(".status-word")).to_have_text("Engine restarting")
        watched.check_accessible()
    finally:
        client.state, client.cause = EngineState.READY, None
    expect(page.locator(".status-word")).to_have_text("Ready")


def test_an_engine_that_is_killed_fails_the_answer_and_the_page_goes_on(
    watched: WatchedPage, profile: BrowserContext, page_server: RunningServer
) -> None:
    watched.expect_fault(FAILED)
    page = watched.open()
    seed_options(watched, **ENDLESS)
    with watched_page(profile, page_server.url) as other:
        other.expect_fault(FAILED)
        engine = open_as_admin(other, "engine")
        expect(engine.locator(".feed-state")).to_have_text("Live")
        ask(page, "Tell me a long story.")
        wait_for_characters(page, 20)
        told = last_answer(page)
        wait_until_back = kill_engine(page_server)
        expect(engine.locator(".feed-state")).to_have_text("Engine restarting")
        expect(page.locator(".answer").get_by_role("alert")).to_contain_text("The answer failed")
        assert last_answer(page).startswith(told[:20]), "what was answered stays"
        wait_until_back()
        expect(engine.locator(".feed-state")).to_have_text("Live")
        expect(engine.locator(f".queues [data-model='{CHAT_MODEL}']")).to_be_visible()
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator(".status-word")).to_have_text("Ready")
    seed_options(watched, max_tokens=4, ignore_eos=False)
    page.get_by_role("button", name="Answer again").click()
    wait_for_answer(page)
    expect(page.get_by_role("group", name="Versions of the answer")).to_contain_text("2 / 2")
