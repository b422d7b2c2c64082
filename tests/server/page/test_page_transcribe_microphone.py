"""The microphone on the web page, which says a recording again and again: words are shown before they are settled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from antiphon.audio.decode import decode
from support.browser.chromium import chromium
from support.browser.sound_views import note_texts, noted_texts
from support.browser.watched_page import PATIENCE, WatchedPage
from support.sound.sounds import wav_bytes
from support.sound.speech import JFK_TEXT, RATE, jfk, normalize_words
from support.waiting import wait_until

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    path.write_bytes(wav_bytes(np.concatenate([decode(jfk(), rate=RATE).values, np.zeros(RATE, np.float32)])))
    with chromium(f"--use-file-for-fake-audio-capture={path}") as running:
        yield running


def test_speech_is_transcribed_as_it_is_spoken(watched: WatchedPage) -> None:
    page = watched.open("transcribe")
    note_texts(page, "unsettled", ".timed-part .unsettled")
    page.get_by_role("button", name="Use the microphone").click()
    expect(page.locator(".record")).to_have_attribute("data-state", "recording")
    wait_until(lambda: noted_texts(page, "unsettled"), "words that may still change")
    watched.check_accessible()
    expect(page.locator(".timed-part .word", has_text="country").first).to_be_visible()  # of a turn that has ended
    assert page.get_by_role("button", name="country").count() == 0  # nothing is played while the microphone is open

    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".record")).to_have_attribute("data-state", "done")
    expect(page.locator(".timed-part .unsettled")).to_have_count(0)
    heard = set(normalize_words(" ".join(page.locator(".timed-part").all_inner_texts())))
    assert len(heard & set(normalize_words(JFK_TEXT))) > 8, heard

    page.get_by_role("button", name="country").first.click()
    audio = page.locator("audio")
    wait_until(
        lambda: audio.evaluate("(audio) => !audio.paused && audio.currentTime > 1"), "the recording to play from 1 s"
    )
    expect(page.locator(".word.lit")).to_have_count(1)
    expect(page.get_by_role("button", name="Use the microphone")).to_be_enabled()
