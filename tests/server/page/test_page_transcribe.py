"""Recordings to text on the web page: files are dropped, their words are clicked, and their text is saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from antiphon.server.setup.config import Limits, ModelSpec, ServerConfig
from support.browser.admin_view import TRANSCRIPTION_MODEL
from support.browser.sound_views import downloaded, drop
from support.browser.watched_page import PATIENCE, PHONE, WIDE, WatchedPage, watched_page
from support.server.http_server import RunningServer, running_server
from support.sound.speech import JFK_TEXT, jfk, normalize_words
from support.waiting import wait_until

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)

NO_SOUND = ("notes.txt", "text/plain", b"These are words, and no sound. " * 20)
DENIED = """navigator.mediaDevices.getUserMedia = () =>
  Promise.reject(new DOMException("Permission denied", "NotAllowedError"));"""


def speech_file(name: str = "jfk.wav") -> tuple[str, str, bytes]:
    return name, "audio/wav", jfk().read_bytes()


def drop_files(page: Page, *files: tuple[str, str, bytes]) -> None:
    expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
    drop(page.locator(".view-transcribe .view-body"), list(files))


def states_are(page: Page, *states: str) -> None:
    """Of the records, in their order."""
    for index, state in enumerate(states):
        expect(page.locator(".record").nth(index)).to_have_attribute("data-state", state)
    expect(page.locator(".record")).to_have_count(len(states))


def test_a_dropped_file_is_transcribed_and_its_words_are_played(watched: WatchedPage) -> None:
    page = watched.open("transcribe")
    drop_files(page, speech_file())
    states_are(page, "done")
    text = " ".join(page.locator(".timed-part").all_inner_texts())
    assert normalize_words(text) == normalize_words(JFK_TEXT)
    page.get_by_role("button", name="ask", exact=True).last.click()  # "ask what you can do"
    audio = page.locator("audio")
    wait_until(
        lambda: audio.evaluate("(audio) => !audio.paused && audio.currentTime > 7"), "the recording to play from 7 s"
    )
    assert audio.evaluate("(audio) => audio.error") is None
    expect(page.locator(".word.lit")).to_have_count(1)


def test_the_text_is_saved(watched: WatchedPage) -> None:
    page = watched.open("transcribe")
    drop_files(page, speech_file())
    states_are(page, "done")
    files = {}
    for kind in ("txt", "srt", "vtt", "json"):
        name, content = downloaded(page, page.get_by_role("button", name=f"Export as {kind.upper()}"))
        assert name == f"jfk.{kind}"
        files[kind] = content.decode()
    assert normalize_words(files["txt"]) == normalize_words(JFK_TEXT)
    assert files["srt"].startswith("1\n00:00:0") and files["vtt"].startswith("WEBVTT\n\n00:00:0")
    assert files["srt"].count(" --> ") == files["vtt"].count(" --> ") >= 2  # it is too long for one cue
    told = json.loads(files["json"])
    assert (told["language"], told["duration"]) == ("english", 11.0)
    assert normalize_words(" ".join(word["word"] for word in told["words"])) == normalize_words(JFK_TEXT)
    starts = [word["start"] for word in told["words"]]
    assert starts == sorted(starts) and starts[-1] < 11


def test_files_wait_are_cancelled_and_tried_again(watched: WatchedPage) -> None:
    page = watched.open("transcribe")
    page.route("**/v1/audio/transcriptions", lambda route: None)  # no answer comes
    drop_files(page, speech_file("one.wav"), speech_file("two.wav"))
    states_are(page, "working", "waiting")
    page.get_by_role("button", name="Cancel two.wav").click()
    page.get_by_role("button", name="Cancel one.wav").click()
    states_are(page, "cancelled", "cancelled")
    page.unroute("**/v1/audio/transcriptions")
    page.get_by_role("button", name="Try one.wav again").click()
    states_are(page, "done", "cancelled")
    page.get_by_role("button", name="Remove two.wav").click()
    states_are(page, "done")


def test_a_file_without_sound_does_not_stop_the_next(watched: WatchedPage) -> None:
    watched.expect_fault("status of 400")
    page = watched.open("transcribe")
    drop_files(page, NO_SOUND, speech_file())
    states_are(page, "failed", "done")
    expect(page.get_by_role("alert")).to_contain_text("not a sound file")
    watched.check_accessible()


def test_an_english_model_offers_english_and_others_all_languages(watched: WatchedPage) -> None:
    cards = httpx.get(watched.url + "/v1/models").json()
    english = next(card for card in cards["data"] if card["id"] == TRANSCRIPTION_MODEL)
    cards["data"].append({**english, "id": "whisper-base", "root": "whisper-base"})
    watched.page.route("**/v1/models", lambda route: route.fulfill(json=cards))
    page = watched.open("transcribe")
    page.get_by_text("Language and prompt").click()
    languages = page.get_by_label("Language", exact=True).locator("option")
    picker = page.locator(".model-picker select")
    picker.select_option("whisper-base")
    expect(languages).to_have_count(100)
    page.get_by_label("Language", exact=True).select_option("de")
    picker.select_option(TRANSCRIPTION_MODEL)
    expect(languages).to_have_text(["English"])
    page.get_by_label("Prompt").fill("Kennedy")
    expect(page.locator(".options summary .hint")).to_have_text("English, with a prompt")
    drop_files(page, speech_file())
    states_are(page, "done")  # German is not sent: the server would reject it
    picker.select_option("whisper-base")
    expect(page.get_by_label("Language", exact=True)).to_have_value("de")


def test_a_file_that_is_too_large_is_told_by_its_limit(
    browser: Browser, tmp_path: Path, model_path: Callable[[str], Path]
) -> None:
    model_path(TRANSCRIPTION_MODEL)
    config = ServerConfig(
        models=(ModelSpec.of(TRANSCRIPTION_MODEL),),
        limits=Limits(audio_bytes=1 << 20),
        files_dir=tmp_path / "files",
        offline=True,
    )
    large = ("long.wav", "audio/wav", jfk().read_bytes() * 3)
    with running_server(config, {"kv_bytes": 64 << 20}) as running, watched_page(browser, running.url) as watched:
        page = watched.open("transcribe")
        drop_files(page, large, speech_file())
        states_are(page, "failed", "done")
        told = f"the file has {len(large[2]):,} bytes; this server takes at most 1,048,576"
        expect(page.get_by_role("alert")).to_have_text(told)


def test_no_permission_for_the_microphone(watched: WatchedPage) -> None:
    watched.page.add_init_script(DENIED)
    page = watched.open("transcribe")
    page.get_by_role("button", name="Use the microphone").click()
    expect(page.get_by_role("alert")).to_contain_text("did not allow the microphone")
    expect(page.get_by_role("button", name="Use the microphone")).to_be_enabled()
    expect(page.locator(".record")).to_have_count(0)


def test_no_model_that_transcribes(watched: WatchedPage) -> None:
    watched.page.route("**/v1/models", lambda route: route.fulfill(json={"object": "list", "data": []}))
    page = watched.open("transcribe")
    expect(page.get_by_role("heading", name="No transcription model")).to_be_visible()
    expect(page.locator(".empty").get_by_role("link", name="Models")).to_have_attribute("href", "#/models")
    watched.check_accessible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_is_accessible(browser: Browser, page_server: RunningServer, scheme: str, viewport: dict[str, int]) -> None:
    with watched_page(browser, page_server.url, color_scheme=scheme, viewport=viewport) as watched:
        page = watched.open("transcribe")
        page.get_by_text("Language and prompt").click()
        watched.check_accessible()
        drop_files(page, speech_file())
        states_are(page, "done")
        watched.check_accessible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
