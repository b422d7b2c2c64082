"""Text to speech on the web page: it is heard, its words are lit, and it is saved with captions."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from antiphon.audio.decode import decode
from support.browser.sound_views import downloaded, note_texts, noted_texts, wait_until_heard
from support.browser.watched_page import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

TEXT = "The quick fox saw Dr. Smith. It costs $5.20 today."
WORDS = re.findall(r"Dr\.|[$\w.]*\w", TEXT)
VOICES = ["heart", "sky"]
SLIDE = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }"


def write(page: Page, text: str = TEXT) -> None:
    page.get_by_label("Text", exact=True).fill(text)


def start(page: Page) -> None:
    page.get_by_role("button", name="Speak", exact=True).click()


def state_is(page: Page, state: str) -> None:
    expect(page.locator(".reader")).to_have_attribute("data-state", state)


def test_a_text_is_heard_and_the_lit_word_follows_pauses_and_seeking(watched: WatchedPage) -> None:
    page = watched.open("speak")
    expect(page.get_by_role("button", name="Speak", exact=True)).to_be_disabled()
    write(page)
    note_texts(page, "lit", ".word.lit")
    start(page)
    wait_until_heard(page)
    state_is(page, "ended")
    assert page.locator(".word").all_inner_texts() == WORDS
    expect(page.locator(".reader .timed-text")).to_have_text(TEXT)
    words = iter(WORDS)
    lit = noted_texts(page, "lit")
    assert len(lit) > 3 and all(word in words for word in lit), lit
    expect(page.locator(".word.lit")).to_have_count(0)

    page.get_by_role("button", name="Play", exact=True).click()
    wait_until_heard(page)
    page.get_by_role("button", name="Pause").click()
    state_is(page, "paused")
    position = page.get_by_label("Position")
    position.evaluate(SLIDE, position.get_attribute("max"))
    expect(page.locator(".word.lit")).to_have_text("today")
    page.locator(".word").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".word:focus")).to_have_text("quick")
    note_texts(page, "lit", ".word.lit")
    page.keyboard.press("Enter")
    wait_until_heard(page)
    page.get_by_role("button", name="Stop", exact=True).click()
    state_is(page, "ended")
    assert set(noted_texts(page, "lit")) <= set(WORDS[1:]) | {"The"}  # which a click may still find lit
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()


@pytest.mark.slow
def test_it_is_saved_in_any_format_with_captions(watched: WatchedPage) -> None:
    page = watched.open("speak")
    write(page)
    for format in ("mp3", "wav", "flac", "opus", "aac"):
        page.get_by_label("Sound format").select_option(format)
        name, content = downloaded(page, page.get_by_role("button", name="Sound", exact=True))
        assert name == f"The-quick-fox-saw-Dr-Smith.{format}"
        seconds = len(decode(content, rate=24_000).values) / 24_000
        assert 2 < seconds < 9
    _, srt = downloaded(page, page.get_by_role("button", name="Captions as SRT"))
    times = re.findall(r"^(\d\d:\d\d:\d\d,\d{3}) --> (\d\d:\d\d:\d\d,\d{3})$", srt.decode(), re.MULTILINE)
    assert len(times) >= 2 and srt.startswith(b"1\n") and b"quick fox" in srt
    _, vtt = downloaded(page, page.get_by_role("button", name="Captions as VTT"))
    assert vtt.startswith(b"WEBVTT\n\n00:00:0") and vtt.count(b" --> ") == len(times)
    _, told = downloaded(page, page.get_by_role("button", name="Captions as JSON"))
    captions = json.loads(told)
    assert captions["text"] == TEXT and [word["word"] for word in captions["words"]] == WORDS
    assert captions["words"][-1]["end"] <= seconds + 0.2


@pytest.mark.slow
def test_a_voice_is_sampled_and_mixed_and_one_that_fails_is_told(watched: WatchedPage) -> None:
    """The list has a voice that the model does not: the server says so, and the page repeats it."""

    def voices(route: Route) -> None:
        data = [{"id": name, "language": "en-us", "gender": "female", "same_as": None} for name in VOICES]
        route.fulfill(json={"object": "list", "model": "hibari-6m", "default": "heart", "data": data})

    watched.expect_fault("status of 400")
    watched.page.route("**/v1/audio/voices*", voices)
    page = watched.open("speak")
    with page.expect_response("**/v1/audio/speech") as answer:
        page.get_by_role("button", name="Hear heart").click()
    assert answer.value.ok and json.loads(answer.value.request.post_data or "")["voice"] == "heart"
    expect(page.get_by_role("button", name="Hear heart")).to_be_visible()  # again, once it was played

    write(page)
    page.get_by_role("button", name="Mix with another voice").click()
    expect(page.locator(".mixture")).to_have_text("heart:0.5+sky:0.5")
    page.get_by_label("Share of sky").evaluate(SLIDE, "1")
    expect(page.locator(".mixture")).to_have_text("heart:0.98+sky:0.02")
    watched.check_accessible()
    with page.expect_request("**/v1/audio/speech") as sent:
        start(page)
    assert json.loads(sent.value.post_data or "")["voice"] == "heart:0.98+sky:0.02"
    expect(page.get_by_role("alert")).to_contain_text("sky")
    page.get_by_role("button", name="Remove sky").click()
    start(page)
    wait_until_heard(page)
    expect(page.get_by_role("alert")).to_have_count(0)
