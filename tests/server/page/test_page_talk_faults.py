"""What goes wrong in conversations on the web page, and how they go on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from antiphon.runtime.process.client import EngineState
from antiphon.server.access.keys import KeyRing
from antiphon.server.http.connection_limits import SessionLimits
from antiphon.server.setup.config import Limits, ModelSpec, ServerConfig
from support.browser.chromium import chromium
from support.browser.talking import ScriptedMicrophone, Witness, begin, preset, stage, type_in
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

pytestmark = pytest.mark.browser

KEY = "the-key-of-conversations"
MODELS = ("smollm2-135m", "hibari-6m", "whisper-tiny.en")
#: A name of this machine that browsers do not trust as they do localhost.
OTHER_NAME = "antiphon.test"
SHORT = 24


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It refuses the microphone."""
    names = f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1"
    with chromium("--use-fake-ui-for-media-stream=deny", names) as running:
        yield running


@pytest.fixture(scope="module")
def keyed(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """With a key, and for one session at a time. Nothing is loaded before it is used."""
    for name in MODELS:
        model_path(name)
    config = ServerConfig(
        models=tuple(ModelSpec(name, name, is_preloaded=False) for name in MODELS),
        keys=KeyRing([KEY]),
        limits=Limits(sessions=SessionLimits(sessions=1)),
        files_dir=tmp_path_factory.mktemp("keyed") / "files",
        offline=True,
    )
    with running_server(config, {"kv_bytes": 64 << 20}) as running:
        yield running


@pytest.fixture
def witness(watched: WatchedPage) -> Witness:
    preset(watched.page, max_tokens=SHORT)
    return Witness(watched.page)


def give_key(page: Page, key: str) -> None:
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key").fill(key)
    dialog.get_by_role("button", name="Use this key").click()


def test_without_permission_the_conversation_goes_on_by_typing(watched: WatchedPage, witness: Witness) -> None:
    page = watched.open("talk")
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("alert")).to_contain_text("did not allow the microphone")
    watched.check_accessible()
    page.get_by_role("button", name="Go on by typing").click()
    expect(page.locator(".turn-word")).to_have_text("Waiting for what you type")
    type_in(page, "Say hello.")
    witness.wait_until_heard()
    assert page.get_by_role("button", name="Mute").count() == 0


def test_a_page_over_plain_http_says_what_the_microphone_needs(browser: Browser, keyed: RunningServer) -> None:
    url = keyed.url.replace("127.0.0.1", OTHER_NAME)
    with watched_page(browser, url) as watched:
        watched.expect_fault(r"401|Cross-Origin-Opener-Policy")
        page = watched.open("talk")
        give_key(page, KEY)
        page.get_by_role("button", name="Start talking").click()
        expect(page.get_by_role("alert")).to_contain_text("only over HTTPS")


def test_a_wrong_key_is_asked_for_again_and_a_second_session_is_refused(browser: Browser, keyed: RunningServer) -> None:
    with watched_page(browser, keyed.url) as first, watched_page(browser, keyed.url) as second:
        for watched in (first, second):
            watched.expect_fault(r"401|429")
            ScriptedMicrophone(watched.page)
            page = watched.open("talk")
            give_key(page, "a wrong key")
            expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("The server does not accept this key.")
            give_key(page, KEY)
            expect(page.get_by_role("dialog")).to_have_count(0)
        begin(first.page)
        second.page.get_by_role("button", name="Start talking").click()
        expect(second.page.get_by_role("alert")).to_contain_text("--max-sessions")
        first.page.get_by_role("button", name="End", exact=True).click()
        wait_until(lambda: "antiphon:realtime_sessions_open 0" in metrics(keyed), "the first session to end")
        begin(second.page)


def metrics(server: RunningServer) -> str:
    return httpx.get(server.url + "/metrics", headers={"authorization": f"Bearer {KEY}"}, timeout=30).text


def test_a_conversation_goes_on_after_its_connection_broke_off(watched: WatchedPage, witness: Witness) -> None:
    ScriptedMicrophone(watched.page)
    page = watched.open("talk")
    begin(page)
    type_in(page, "Say hello.")
    witness.wait_until_heard()
    expect(page.locator(".said.answer")).to_have_attribute("data-settled", "true")
    before = page.locator(".said.answer .settled").inner_text().strip()
    witness.drop_socket()
    wait_until(lambda: len(witness.received("session.created")) == 2, "a second session", seen=lambda: witness.turns)
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


def test_a_microphone_that_is_unplugged_is_said_to_be(watched: WatchedPage, witness: Witness) -> None:
    microphone = ScriptedMicrophone(watched.page)
    page = watched.open("talk")
    begin(page)
    microphone.lose()
    expect(page.locator(".notice")).to_contain_text("The microphone was disconnected")
    type_in(page, "Say hello.")
    witness.wait_until_heard()


def test_a_conversation_goes_on_after_the_engine_was_killed(
    watched: WatchedPage, witness: Witness, page_server: RunningServer
) -> None:
    ScriptedMicrophone(watched.page)
    page = watched.open("talk")
    begin(page)
    client = page_server.serving.client
    before = client.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    models = page_server.serving.models
    is_back = lambda: client.pid != before and client.state is EngineState.READY and models.is_ready  # noqa: E731
    wait_until(is_back, "a new engine with its models", seen=lambda: client.state)
    expect(page.locator(".status-word")).to_have_text("Ready")

    def answers() -> list[dict[str, Any]]:
        return [event["response"] for event in witness.received("response.done")]

    def is_answered() -> bool:
        """An answer that was asked for while a model is loaded again may fail."""
        number = len(answers()) + 1
        type_in(page, "Say hello.")
        wait_until(lambda: len(answers()) >= number, "an answer's end", seen=lambda: witness.turns)
        return bool(answers()[-1]["status"] != "failed")

    wait_until(is_answered, "an answer that does not fail", seen=lambda: answers()[-1]["status_details"])
    witness.wait_until_heard()
    assert len(witness.received("session.created")) == 1


def test_settings_that_the_server_rejects_are_said(watched: WatchedPage) -> None:
    ScriptedMicrophone(watched.page)
    preset(watched.page, voice="nobody")
    page = watched.open("talk")
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("rejects the settings.*nobody"))
    expect(page.get_by_role("button", name="Start talking")).to_be_visible()


def test_a_missing_model_is_named_with_a_way_to_models(watched: WatchedPage) -> None:
    def without_speech(route: Route) -> None:
        told: dict[str, Any] = route.fetch().json()
        told["data"] = [card for card in told["data"] if card["task"] != "synthesize"]
        route.fulfill(json=told)

    watched.page.route("**/v1/models", without_speech)
    page = watched.open("talk")
    expect(page.get_by_text("This server has no speech model.")).to_be_visible()
    expect(page.get_by_role("link", name="Models of this server")).to_have_attribute("href", re.compile("#/models"))
    assert page.get_by_role("button", name="Start talking").count() == 0
    watched.check_accessible()
