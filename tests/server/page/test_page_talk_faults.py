"""What goes wrong in conversations on the web page, and how they go on."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from support.browser.admin_view import API_KEY, give_key, kill_engine
from support.browser.chromium import OTHER_NAME
from support.browser.talking import ScriptedMicrophone, Witness, begin, preset, stage, type_in
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

#: Tokens of an answer.
SHORT = 6


@pytest.fixture
def witness(watched: WatchedPage) -> Witness:
    preset(watched.page, max_tokens=SHORT)
    return Witness(watched.page)


def test_without_permission_the_conversation_goes_on_by_typing(
    profile: BrowserContext, page_server: RunningServer
) -> None:
    with watched_page(profile, page_server.url, permissions=[]) as watched:
        preset(watched.page, max_tokens=SHORT)
        witness = Witness(watched.page)
        page = watched.open("talk")
        page.get_by_role("button", name="Start talking").click()
        expect(page.get_by_role("alert")).to_contain_text("did not allow the microphone")
        watched.check_accessible()
        page.get_by_role("button", name="Go on by typing").click()
        expect(page.locator(".turn-word")).to_have_text("Waiting for what you type")
        type_in(page, "Say hello.")
        witness.wait_until_heard()
        assert page.get_by_role("button", name="Mute").count() == 0


@pytest.mark.slow
def test_a_page_over_plain_http_says_what_the_microphone_needs(
    profile: BrowserContext, keyed_server: RunningServer
) -> None:
    url = keyed_server.url.replace("127.0.0.1", OTHER_NAME)
    with watched_page(profile, url, permissions=[]) as watched:
        watched.expect_fault(r"401|Cross-Origin-Opener-Policy")
        page = watched.open("talk")
        give_key(page, API_KEY)
        page.get_by_role("button", name="Start talking").click()
        expect(page.get_by_role("alert")).to_contain_text("only over HTTPS")


@pytest.mark.slow
def test_a_wrong_key_is_asked_for_again_and_a_second_session_is_refused(
    profile: BrowserContext, keyed_server: RunningServer
) -> None:
    url = keyed_server.url
    with watched_page(profile, url) as first, watched_page(profile, url) as second:
        for watched in (first, second):
            watched.expect_fault(r"401|429")
            ScriptedMicrophone(watched.page)
            page = watched.open("talk")
            give_key(page, "a wrong key")
            expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("The server does not accept this key.")
            give_key(page, API_KEY)
            expect(page.get_by_role("dialog")).to_have_count(0)
        begin(first.page)
        second.page.get_by_role("button", name="Start talking").click()
        expect(second.page.get_by_role("alert")).to_contain_text("--max-sessions")
        first.page.get_by_role("button", name="End", exact=True).click()
        wait_until(lambda: "antiphon:realtime_sessions_open 0" in metrics(keyed_server), "the end of the first session")
        begin(second.page)


def metrics(server: RunningServer) -> str:
    return httpx.get(server.url + "/metrics", headers={"authorization": f"Bearer {API_KEY}"}, timeout=30).text


def test_a_conversation_goes_on_after_its_connection_broke_off(watched: WatchedPage, witness: Witness) -> None:
    ScriptedMicrophone(watched.page)
    page = watched.open("talk")
    begin(page)
    type_in(page, "Say hello.")
    witness.wait_until_heard()
    expect(page.locator(".said.answer")).to_have_attribute("data-settled", "true")
    before = page.locator(".said.answer .settled").inner_text().strip()
    witness.drop_socket()
    witness.wait_for("session.created", 2)
    expect(stage(page)).to_have_attribute("data-turn", "listening")
    expect(page.locator(".notice")).to_have_count(0)
    assert "reconnecting" in witness.turns

    items = [event["item"] for event in witness.sent("conversation.item.create")]
    texts = [item["content"][0]["text"] for item in items]
    assert texts == ["Say hello.", "Say hello.", before]
    type_in(page, "And again.")
    expect(page.locator(".said.answer")).to_have_count(2)
    expect(page.locator(".said.answer").nth(1).locator(".settled")).not_to_be_empty()
    assert witness.received("error") == []


@pytest.mark.slow
def test_a_microphone_that_is_unplugged_is_said_to_be(watched: WatchedPage, witness: Witness) -> None:
    microphone = ScriptedMicrophone(watched.page)
    page = watched.open("talk")
    begin(page)
    microphone.lose()
    expect(page.locator(".notice")).to_contain_text("The microphone was disconnected")
    type_in(page, "Say hello.")
    witness.wait_until_heard()


@pytest.mark.slow
def test_a_conversation_goes_on_after_the_engine_was_killed(
    watched: WatchedPage, witness: Witness, page_server: RunningServer
) -> None:
    ScriptedMicrophone(watched.page)
    page = watched.open("talk")
    begin(page)
    kill_engine(page_server)()
    expect(page.locator(".status-word")).to_have_text("Ready")

    def answers() -> list[dict[str, Any]]:
        return [event["response"] for event in witness.received("response.done")]

    def is_answered() -> bool:
        """An answer that was asked for while a model is loaded again may fail."""
        number = len(answers()) + 1
        type_in(page, "Say hello.")
        witness.wait_for("response.done", number)
        return bool(answers()[-1]["status"] != "failed")

    wait_until(is_answered, "an answer that does not fail", seen=lambda: answers()[-1]["status_details"])
    witness.wait_until_heard()
    assert len(witness.received("session.created")) == 1


@pytest.mark.slow
def test_settings_that_the_server_rejects_are_said(watched: WatchedPage) -> None:
    ScriptedMicrophone(watched.page)
    preset(watched.page, voice="nobody")
    page = watched.open("talk")
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("rejects the settings.*nobody"))
    expect(page.get_by_role("button", name="Start talking")).to_be_visible()
