"""A conversation by voice with Chromium's own microphone, which says a recorded sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser.chromium import chromium
from support.browser.talking import Witness, clip, preset, stage, with_silence
from support.browser.watched_page import WatchedPage
from support.sound.sounds import wav_bytes

pytestmark = pytest.mark.browser

SENTENCE, WORDS = "austen-0880", "young man"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Its microphone says the sentence once, and is silent then."""
    path: Path = tmp_path_factory.mktemp("microphone") / "sentence.wav"
    path.write_bytes(wav_bytes(with_silence(clip(SENTENCE).sound, 0.5, 2.0)))
    with chromium(f"--use-file-for-fake-audio-capture={path}%noloop") as running:
        yield running


def test_a_sentence_is_heard_and_answered_aloud(watched: WatchedPage) -> None:
    witness = Witness(watched.page)
    preset(watched.page, max_tokens=24)
    page = watched.open("talk")
    page.get_by_role("button", name="Start talking").click()
    expect(page.locator(".said.you .settled")).to_contain_text(WORDS)
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
    watched.check_accessible()

    page.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    expect(page.locator(".said.you .settled")).to_contain_text(WORDS)
    assert witness.received("error") == []
