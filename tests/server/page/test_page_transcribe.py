"""Recordings to text on the web page: files are dropped, their words are clicked, and their text is saved."""

from __future__ import annotations

import json

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.browser.admin_view import MAX_RECORDING, TRANSCRIPTION_MODEL
from support.browser.sound_views import downloaded, drop, note_texts
from support.browser.talking import ScriptedMicrophone, sentence
from support.browser.watched_page import WatchedPage, wait_on_page, watched_page
from support.server.http_server import RunningServer
from support.sound.sounds import wav_bytes
from support.sound.speech import JFK_TEXT, jfk, normalize_words

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

NO_SOUND = ("notes.txt", "text/plain", b"These are words, and no sound. " * 20)


def short_file(name: str = "short.wav") -> tuple[str, str, bytes]:
    return name, "audio/wav", wav_bytes(sentence("country"))


def drop_files(page: Page, *files: tuple[str, str, bytes]) -> None:
    expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
    drop(page.locator(".view-transcribe .view-body"), list(files))


def states_are(page: Page, *states: str) -> None:
    """Check the states of the records, in their order."""
    for index, state in enumerate(states):
        expect(page.locator(".record").nth(index)).to_have_attribute("data-state", state)
    expect(page.locator(".record")).to_have_count(len(states))


def wait_until_played(page: Page, second: float) -> None:
    """Wait until the recording is played at a second or later, and a word is lit."""
    audio = "document.querySelector('audio')"
    wait_on_page(
        page,
        f"!{audio}.paused && {audio}.currentTime > {second}",
        seen=lambda: page.evaluate(f"[{audio}.currentTime, {audio}.paused, {audio}.error?.message]"),
    )
    expect(page.locator(".word.lit")).to_have_count(1)


def test_a_dropped_file_is_transcribed_played_by_its_words_and_saved(watched: WatchedPage) -> None:
    page = watched.open("transcribe")
    drop_files(page, ("jfk.wav", "audio/wav", jfk().read_bytes()))
    states_are(page, "done")
    text = " ".join(page.locator(".timed-part").all_inner_texts())
    assert normalize_words(text) == normalize_words(JFK_TEXT)
    page.get_by_role("button", name="ask", exact=True).last.click()  # "ask what you can do"
    wait_until_played(page, 7)

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


def test_speech_is_transcribed_as_it_is_spoken(watched: WatchedPage) -> None:
    microphone = ScriptedMicrophone(watched.page)
    page = watched.open("transcribe")
    note_texts(page, "unsettled", ".timed-part .unsettled")
    page.get_by_role("button", name="Use the microphone").click()
    expect(page.locator(".record")).to_have_attribute("data-state", "recording")
    microphone.keep("country")
    microphone.say("country", is_repeated=True)
    watched.wait_until("window.unsettled.length > 0")  # words that may still change; a busy machine has few of them
    microphone.finish()
    expect(page.locator(".timed-part .word", has_text="country").first).to_be_visible()  # of a turn that has ended
    assert page.get_by_role("button", name="country").count() == 0  # nothing is played while the microphone is open

    page.get_by_role("button", name="Stop").click()
    states_are(page, "done")
    expect(page.locator(".timed-part .unsettled")).to_have_count(0)
    page.get_by_role("button", name="country").first.click()
    wait_until_played(page, 1)
    expect(page.get_by_role("button", name="Use the microphone")).to_be_enabled()


def test_files_wait_are_cancelled_and_tried_again(watched: WatchedPage) -> None:
    page = watched.open("transcribe")
    page.route("**/v1/audio/transcriptions", lambda route: None)  # no answer comes
    drop_files(page, short_file("one.wav"), short_file("two.wav"))
    states_are(page, "working", "waiting")
    page.get_by_role("button", name="Cancel two.wav").click()
    page.get_by_role("button", name="Cancel one.wav").click()
    states_are(page, "cancelled", "cancelled")
    page.unroute("**/v1/audio/transcriptions")
    page.get_by_role("button", name="Try one.wav again").click()
    states_are(page, "done", "cancelled")
    page.get_by_role("button", name="Remove two.wav").click()
    states_are(page, "done")


@pytest.mark.slow
def test_files_that_are_too_large_or_have_no_sound_do_not_stop_the_next(watched: WatchedPage) -> None:
    watched.expect_fault("status of 400")
    page = watched.open("transcribe")
    large = ("long.wav", "audio/wav", jfk().read_bytes() * 3)
    drop_files(page, large, NO_SOUND, short_file())
    states_are(page, "failed", "failed", "done")
    too_large, no_sound = page.get_by_role("alert").all_inner_texts()
    assert too_large == f"the file has {len(large[2]):,} bytes; this server takes at most {MAX_RECORDING:,}"
    assert "not a sound file" in no_sound
    watched.check_accessible()


@pytest.mark.slow
def test_an_english_model_offers_english_and_others_all_languages(watched: WatchedPage) -> None:
    cards = httpx.get(watched.url + "/page/models").json()
    english = next(card for card in cards["data"] if card["id"] == TRANSCRIPTION_MODEL)
    cards["data"].append({**english, "id": "whisper-base", "root": "whisper-base"})
    watched.page.route("**/page/models", lambda route: route.fulfill(json=cards))
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
    drop_files(page, short_file())
    states_are(page, "done")  # German is not sent: the server would reject it
    picker.select_option("whisper-base")
    expect(page.get_by_label("Language", exact=True)).to_have_value("de")


@pytest.mark.slow
def test_no_permission_for_the_microphone(profile: BrowserContext, page_server: RunningServer) -> None:
    with watched_page(profile, page_server.url, permissions=[]) as watched:
        page = watched.open("transcribe")
        page.get_by_role("button", name="Use the microphone").click()
        expect(page.get_by_role("alert")).to_contain_text("did not allow the microphone")
        expect(page.get_by_role("button", name="Use the microphone")).to_be_enabled()
        expect(page.locator(".record")).to_have_count(0)
