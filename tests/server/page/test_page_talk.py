"""Conversations by voice on the web page, with real models and a microphone that speaks when a test wants it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from support.browser.talking import ScriptedMicrophone, Witness, begin, preset, stage, type_in
from support.browser.watched_page import WatchedPage
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

#: Tokens of an answer that a test waits for to the end.
SHORT = 6
#: Settings with which an answer does not end before it is interrupted.
ENDLESS = {"speed": 0.5, "instructions": "You tell long stories.", "max_tokens": None}
LONG_STORY = "Tell me a long story about a king, a dragon and a river."


@pytest.fixture
def microphone(watched: WatchedPage) -> ScriptedMicrophone:
    preset(watched.page, max_tokens=SHORT)
    return ScriptedMicrophone(watched.page)


@pytest.fixture
def witness(watched: WatchedPage) -> Witness:
    return Witness(watched.page)


def test_a_sentence_is_heard_and_answered_aloud(watched: WatchedPage) -> None:
    """Chromium's own microphone says the sentence."""
    witness = Witness(watched.page)
    preset(watched.page, max_tokens=SHORT)
    page = watched.open("talk")
    page.get_by_role("button", name="Start talking").click()
    expect(page.locator(".said.you .settled")).to_contain_text("country")
    witness.wait_until_heard()
    answer = page.locator(".said.answer")
    expect(answer).to_have_attribute("data-settled", "true")
    expect(stage(page)).to_have_attribute("data-turn", "listening")
    turns = iter(witness.turns)
    assert all(turn in turns for turn in ("hearing", "thinking", "speaking", "listening")), witness.turns
    assert answer.locator(".settled").inner_text().strip()
    assert answer.locator(".cut").count() == 0
    expect(page.locator(".talk-median")).to_contain_text("1 turn")

    answer.get_by_text("to the first sound").click()
    (marks,) = [event["response"]["metadata"]["antiphon.waterfall"] for event in witness.received("response.done")]
    cells = "rows => rows.map((row) => [row.cells[0].innerText, row.cells[3].innerText])"
    rows = dict(answer.locator("tbody tr").evaluate_all(cells))
    for name, mark in {
        "End of turn decided": "turn_decided",
        "Transcript": "transcript_final",
        "First token": "first_token",
        "First clause": "first_clause",
        "First sound": "first_sound",
    }.items():
        assert f'"{mark}":{rows[name]}' in marks

    page.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    expect(page.locator(".said.you .settled")).to_contain_text("country")
    assert witness.received("error") == []


def test_speech_interrupts_an_answer_and_shows_what_was_not_heard(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    preset(watched.page, **ENDLESS)
    page = watched.open("talk")
    begin(page)
    microphone.keep("country")
    type_in(page, LONG_STORY)
    expect(stage(page)).to_have_attribute("data-turn", "speaking")
    witness.wait_until_heard()
    microphone.say("country")
    expect(stage(page)).to_have_attribute("data-turn", "hearing")

    first = page.locator(".said.answer").first
    expect(first.locator(".cut s")).not_to_be_empty()
    # What was left out is shown at once; what was heard follows when the server has told it.
    witness.wait_for("conversation.item.retrieved")
    (cut,) = witness.sent("conversation.item.truncate")
    (kept,) = witness.received("conversation.item.retrieved")
    assert cut["audio_end_ms"] > 0 and kept["item"]["id"] == cut["item_id"]
    heard = kept["item"]["content"][0]["transcript"]
    expect(first.locator(".settled")).to_have_text(heard.strip())
    expect(page.locator(".said.you").nth(1)).to_contain_text("country")
    expect(page.locator(".said.answer").nth(1)).to_be_visible()
    assert witness.received("error") == []


@pytest.mark.slow
def test_push_to_talk_by_pointer_and_by_space_bar(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    page = watched.open("talk")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("My turn ends with").select_option("push_to_talk")
    begin(page)
    microphone.keep("Americans", "country")
    button = page.get_by_role("button", name="Hold to speak")
    button.hover()
    page.mouse.down()
    expect(stage(page)).to_have_attribute("data-turn", "hearing")
    microphone.say("Americans")
    microphone.wait_until_said()
    assert witness.received("input_audio_buffer.committed") == []
    page.mouse.up()
    expect(page.locator(".said.you .settled")).to_contain_text("Americans")
    witness.wait_until_heard()

    page.get_by_role("region", name="What was said").focus()
    page.keyboard.down("Space")
    expect(stage(page)).to_have_attribute("data-turn", "hearing")
    microphone.say("country")
    microphone.wait_until_said()
    page.keyboard.up("Space")
    expect(page.locator(".said.you").nth(1)).to_contain_text("country")
    expect(page.locator(".said.answer").nth(1).locator(".settled")).not_to_be_empty()
    assert len(witness.sent("response.create")) == 2


@pytest.mark.slow
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


@pytest.mark.slow
def test_muted_it_goes_on_by_typing_and_an_answer_is_stopped_by_its_button(
    watched: WatchedPage, microphone: ScriptedMicrophone, witness: Witness
) -> None:
    preset(watched.page, **ENDLESS)
    page = watched.open("talk")
    begin(page)
    microphone.keep("Americans")
    page.get_by_role("button", name="Mute").click()
    expect(page.locator(".turn-word")).to_have_text("The microphone is muted")
    microphone.say("Americans")
    microphone.wait_until_said()
    type_in(page, LONG_STORY)
    witness.wait_until_heard()
    expect(page.locator(".said.you")).to_have_text(re.compile(LONG_STORY))
    assert witness.received("input_audio_buffer.speech_started") == []
    page.get_by_role("button", name="Stop the answer").click()
    expect(stage(page)).to_have_attribute("data-turn", "listening")
    expect(page.locator(".said.answer .cut s")).not_to_be_empty()
    assert len(witness.sent("conversation.item.truncate")) == 1
    assert witness.received("error") == []


@pytest.mark.slow
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

    def seen() -> list[object]:
        return [witness.sent("session.update")[-1], witness.received("error")]

    wait_until(is_taken, "the settings to be in effect", seen=seen)
    expect(page.get_by_role("button", name="Hold to speak")).to_be_visible()
    watched.check_accessible()
