"""Conversations by voice on the web page, with real models and a microphone that speaks when a test wants it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from support.browser.talking import ScriptedMicrophone, Witness, begin, preset, stage, type_in
from support.browser.watched_page import PHONE, WIDE, WatchedPage, watched_page
from support.server.http_server import RunningServer
from support.waiting import wait_until

pytestmark = pytest.mark.browser

SENTENCE, WORDS = "austen-0880", "young man"
OTHER_SENTENCE, OTHER_WORDS = "austen-0930", "himself"
LONG_SENTENCE, LONG_WORDS = "austen-0870", "power"
#: Tokens of an answer that a test waits for to the end.
SHORT = 24
LONG_STORY = "Tell me a long story about a king, a dragon and a river."


@pytest.fixture
def microphone(watched: WatchedPage) -> ScriptedMicrophone:
    preset(watched.page, max_tokens=SHORT)
    return ScriptedMicrophone(watched.page)


@pytest.fixture
def witness(watched: WatchedPage) -> Witness:
    return Witness(watched.page)


def test_speech_interrupts_an_answer_and_shows_what_was_not_heard(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    preset(watched.page, speed=0.5, instructions="You tell long stories.", max_tokens=None)
    page = watched.open("talk")
    begin(page)
    microphone.keep(LONG_SENTENCE)
    type_in(page, LONG_STORY)
    expect(stage(page)).to_have_attribute("data-turn", "speaking")
    witness.wait_until_heard()
    microphone.say(LONG_SENTENCE)
    expect(stage(page)).to_have_attribute("data-turn", "hearing")

    first = page.locator(".said.answer").first
    expect(first.locator(".cut s")).not_to_be_empty()
    # What was left out is shown at once; what was heard follows when the server has told it.
    wait_until(
        lambda: witness.received("conversation.item.retrieved"), "the words that were heard", seen=lambda: witness.turns
    )
    (cut,) = witness.sent("conversation.item.truncate")
    (kept,) = witness.received("conversation.item.retrieved")
    assert cut["audio_end_ms"] > 0 and kept["item"]["id"] == cut["item_id"]
    heard = kept["item"]["content"][0]["transcript"]
    expect(first.locator(".settled")).to_have_text(heard.strip())
    expect(page.locator(".said.you").nth(1)).to_contain_text(LONG_WORDS)
    expect(page.locator(".said.answer").nth(1).locator(".settled")).not_to_be_empty()
    assert witness.received("error") == []


def test_push_to_talk_by_pointer_and_by_space_bar(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    page = watched.open("talk")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("My turn ends with").select_option("push_to_talk")
    begin(page)
    microphone.keep(SENTENCE, OTHER_SENTENCE)
    button = page.get_by_role("button", name="Hold to speak")
    button.hover()
    page.mouse.down()
    expect(stage(page)).to_have_attribute("data-turn", "hearing")
    microphone.say(SENTENCE)
    microphone.wait_until_said()
    assert witness.received("input_audio_buffer.committed") == []
    page.mouse.up()
    expect(page.locator(".said.you .settled")).to_contain_text(WORDS)
    witness.wait_until_heard()

    page.get_by_role("region", name="What was said").focus()
    page.keyboard.down("Space")
    expect(stage(page)).to_have_attribute("data-turn", "hearing")
    microphone.say(OTHER_SENTENCE)
    microphone.wait_until_said()
    page.keyboard.up("Space")
    expect(page.locator(".said.you").nth(1)).to_contain_text(OTHER_WORDS)
    expect(page.locator(".said.answer").nth(1).locator(".settled")).not_to_be_empty()
    assert len(witness.sent("response.create")) == 2


def test_a_turn_without_speech_is_not_answered(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    preset(watched.page, detection="push_to_talk")
    page = watched.open("talk")
    begin(page)
    button = page.get_by_role("button", name="Hold to speak")
    button.focus()
    page.keyboard.press("Enter")  # switches, for people who cannot hold
    expect(stage(page)).to_have_attribute("data-turn", "hearing")
    page.keyboard.press("Enter")
    expect(page.locator(".talk-remark")).to_have_text(re.compile("Nothing was"))
    expect(stage(page)).to_have_attribute("data-turn", "listening")
    assert page.locator(".said").count() == 0
    assert "speaking" not in witness.turns


def test_the_conversation_is_muted_and_goes_on_by_typing(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    page = watched.open("talk")
    begin(page)
    microphone.keep(SENTENCE)
    page.get_by_role("button", name="Mute").click()
    expect(page.locator(".turn-word")).to_have_text("The microphone is muted")
    microphone.say(SENTENCE)
    microphone.wait_until_said()
    type_in(page, "Say hello.")
    witness.wait_until_heard()
    expect(page.locator(".said.you")).to_have_text(re.compile("Say hello."))
    assert witness.received("input_audio_buffer.speech_started") == []


def test_an_answer_is_stopped_by_its_button(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    preset(watched.page, speed=0.5, instructions="You tell long stories.", max_tokens=None)
    page = watched.open("talk")
    begin(page)
    type_in(page, LONG_STORY)
    witness.wait_until_heard()
    page.get_by_role("button", name="Stop the answer").click()
    expect(stage(page)).to_have_attribute("data-turn", "listening")
    expect(page.locator(".said.answer .cut s")).not_to_be_empty()
    assert len(witness.sent("conversation.item.truncate")) == 1
    assert witness.received("error") == []


def test_settings_hold_in_a_conversation_that_goes_on(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    page = watched.open("talk")
    begin(page)
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Instructions").fill("Be brief.")
    page.get_by_label("Calculator").check()
    page.get_by_label("My turn ends with").select_option("push_to_talk")
    expect(page.get_by_label("Voice").locator("option").nth(1)).to_be_attached()
    name = page.get_by_label("Voice").locator("option").nth(1).inner_text()
    page.get_by_label("Voice").select_option(name)

    def is_taken() -> bool:
        session = witness.received("session.updated")[-1]["session"]
        audio = session["audio"]
        return bool(
            session["instructions"] == "Be brief."
            and [tool["name"] for tool in session["tools"]] == ["calculate"]
            and audio["input"]["turn_detection"] is None
            and audio["output"]["voice"] == name
        )

    seen = lambda: [witness.sent("session.update")[-1], witness.received("error")]  # noqa: E731
    wait_until(is_taken, "the settings to be in effect", seen=seen)
    expect(page.get_by_role("button", name="Hold to speak")).to_be_visible()
    watched.check_accessible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_view_is_accessible_and_fits(
    browser: Browser, page_server: RunningServer, scheme: str, viewport: dict[str, int]
) -> None:
    with watched_page(browser, page_server.url, color_scheme=scheme, viewport=viewport) as watched:
        ScriptedMicrophone(watched.page)
        preset(watched.page, max_tokens=SHORT)
        witness = Witness(watched.page)
        page = watched.open("talk")
        expect(page.get_by_role("button", name="Start talking")).to_be_visible()
        watched.check_accessible()
        begin(page)
        type_in(page, "Say hello.")
        witness.wait_until_heard()
        expect(page.locator(".latency")).to_be_visible()
        page.locator(".latency summary").click()
        page.get_by_role("button", name="Settings").click()
        watched.check_accessible()
        page.get_by_role("button", name="Close the settings").click()
        watched.check_accessible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_sound_of_another_rate_keeps_its_tones_and_loses_what_does_not_fit(watched: WatchedPage) -> None:
    page = watched.open("talk")
    levels = page.evaluate(
        """async () => {
          const main = document.querySelector("script[type=module]").src;
          const { Resampler } = await import(main.replace("app/main.js", "lib/resampler.js"));
          const level = (hertz, from) => {
            const resampler = new Resampler(from, 24000);
            const made = [];
            for (let start = 0; start < from; start += 100) {
              const tone = (_, index) => Math.sin((2 * Math.PI * hertz * (start + index)) / from);
              made.push(...resampler.push(Float32Array.from({ length: 100 }, tone)));
            }
            const middle = made.slice(2000, 20000);
            return [made.length, Math.sqrt(middle.reduce((sum, value) => sum + value * value, 0) / middle.length)];
          };
          const cases = [[1000, 48000], [1000, 44100], [9000, 48000], [15000, 48000], [1000, 16000]];
          return cases.map(([hertz, from]) => level(hertz, from));
        }"""
    )
    for (count, level), wanted in zip(levels, [0.7071, 0.7071, 0.7071, 0.0, 0.7071], strict=True):
        assert 23_000 < count <= 24_100
        assert level == pytest.approx(wanted, abs=0.005)
