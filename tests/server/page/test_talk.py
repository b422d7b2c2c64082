"""Conversations by voice on the web page, with real models and a microphone that says recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser.chromium import chromium
from support.browser.talking import ScriptedMicrophone, Witness, clip, with_silence
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer
from support.sound.sounds import wav_bytes

pytestmark = pytest.mark.browser

SENTENCE, WORDS = "austen-0880", "young man"
OTHER_SENTENCE, OTHER_WORDS = "austen-0930", "himself"
LONG_SENTENCE, LONG_WORDS = "austen-0870", "power"


@pytest.fixture
def microphone(watched: WatchedPage) -> ScriptedMicrophone:
    return ScriptedMicrophone(watched.page)


@pytest.fixture
def witness(watched: WatchedPage) -> Witness:
    return Witness(watched.page)


@pytest.fixture(scope="module")
def file_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Its microphone says a sentence, once, and is silent then."""
    path: Path = tmp_path_factory.mktemp("microphone") / "sentence.wav"
    path.write_bytes(wav_bytes(with_silence(clip(SENTENCE).sound, 0.5, 2.0)))
    with chromium(f"--use-file-for-fake-audio-capture={path}%noloop") as running:
        yield running


def begin(page: Page) -> None:
    page.get_by_role("button", name="Start talking").click()
    expect(stage(page)).to_have_attribute("data-turn", "listening")


def stage(page: Page):
    return page.locator(".talk-stage")


def follows(turns: list[str], wanted: list[str]) -> bool:
    """Whether the wanted states came in this order, maybe with others between."""
    rest = iter(turns)
    return all(turn in rest for turn in wanted)


class TestAMicrophoneThatIsAFile:
    def test_a_sentence_is_heard_and_answered_aloud(self, file_browser: Browser, page_server: RunningServer) -> None:
        with watched_page(file_browser, page_server.url) as watched:
            witness = Witness(watched.page)
            page = watched.open("talk")
            page.get_by_role("button", name="Start talking").click()
            expect(page.locator(".said.you .settled")).to_contain_text(WORDS)
            witness.wait_until_heard()
            answer = page.locator(".said.answer")
            expect(answer).to_have_attribute("data-settled", "true")
            expect(stage(page)).to_have_attribute("data-turn", "listening")
            assert follows(witness.turns, ["hearing", "thinking", "speaking", "listening"]), witness.turns
            assert answer.locator(".settled").inner_text().strip()
            assert answer.locator(".cut").count() == 0
            expect(page.locator(".talk-median")).to_contain_text("1 turn")
            watched.check_accessible()
            page.get_by_role("button", name="End").click()
            expect(page.get_by_role("button", name="Go on")).to_be_visible()
            assert witness.received("error") == []
