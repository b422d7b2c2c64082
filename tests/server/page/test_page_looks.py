"""Every view in four looks, wide and narrow, light and dark: accessible by axe's rules, and no wider than the screen.

`pytest -m browser tests/server/page/test_page_looks.py --screenshots docs/images/page` makes the pictures of the docs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.browser.admin_view import load, open_as_admin
from support.browser.chat_view import ask, seed_options, wait_for_answer
from support.browser.sound_views import drop
from support.browser.talking import ScriptedMicrophone, Witness, begin, preset, sentence, type_in
from support.browser.watched_page import PHONE, WIDE, WatchedPage
from support.server.http_server import RunningServer
from support.sound.sounds import wav_bytes
from support.sound.speech import jfk

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

IMAGES = Path(__file__).parents[3] / "docs" / "images" / "page"
SHAPES = {"wide": WIDE, "phone": PHONE}
LOOKS = [(shape, scheme) for shape in SHAPES for scheme in ("light", "dark")]
#: Looks of states that differ from the first one of their view in a part of the page.
FEWER_LOOKS = [("wide", "light"), ("phone", "dark")]
#: Pixels of views that are longer than a screen, and are shown whole in the docs.
HEIGHTS = {("engine", "wide"): 1900, ("engine", "phone"): 2600, ("models", "phone"): 1200}
#: Canvases are drawn again in the frame after a change.
TWO_FRAMES = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
QUESTIONS = (
    "What is a choir? Answer in two sentences.",
    "Write a Python function that returns the square of a number, and explain it in one sentence.",
)

#: Opens a view in one state after another, and names each. The docs show the first, which is complete if `is_shown`.
States = Callable[[WatchedPage, RunningServer, bool], Iterator[str]]


def chat(watched: WatchedPage, _: RunningServer, is_shown: bool) -> Iterator[str]:
    page = watched.open()
    seed_options(watched, max_tokens=96 if is_shown else 4, temperature=0)
    for number, question in enumerate(QUESTIONS, 1):
        ask(page, question)
        wait_for_answer(page, number)
    yield "answered"
    page.get_by_role("button", name="Answer again").last.click()
    expect(page.get_by_role("group", name="Versions of the answer")).to_contain_text("2 / 2")
    wait_for_answer(page, 2)
    page.get_by_role("button", name="Settings", exact=True).click()
    yield "settings"
    page.get_by_role("button", name="Close the settings").click()
    if page.get_by_role("button", name="Show the list of chats").is_visible():
        page.get_by_role("button", name="Show the list of chats").click()
    page.get_by_role("button", name=f"Manage {QUESTIONS[0]}").click()
    page.get_by_role("dialog").wait_for()
    yield "dialog"


def speak(watched: WatchedPage, _: RunningServer, is_shown: bool) -> Iterator[str]:
    page = watched.open("speak")
    text = "Two choirs stand across from each other, and sing in turns. What one begins, the other one answers."
    page.get_by_label("Text", exact=True).fill(text if is_shown else text.partition(".")[0])
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.locator(".word.lit")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".reader")).to_have_attribute("data-state", "paused")
    yield "paused"


def transcribe(watched: WatchedPage, _: RunningServer, is_shown: bool) -> Iterator[str]:
    page = watched.open("transcribe")
    expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
    recording = jfk().read_bytes() if is_shown else wav_bytes(sentence("country"))
    drop(page.locator(".view-transcribe .view-body"), [("inauguration.wav", "audio/wav", recording)])
    expect(page.locator(".record")).to_have_attribute("data-state", "done")
    yield "done"
    page.get_by_text("Language and prompt").click()
    yield "options"


def talk(watched: WatchedPage, _: RunningServer, is_shown: bool) -> Iterator[str]:
    preset(watched.page, max_tokens=24 if is_shown else 8)
    microphone, witness = ScriptedMicrophone(watched.page), Witness(watched.page)
    page = watched.open("talk")
    begin(page)
    if is_shown:
        microphone.keep("country")
        microphone.say("country")
    else:
        type_in(page, "Say hello.")
    witness.wait_until_heard()
    expect(page.locator(".latency").first).to_be_visible()
    yield "answered"
    page.locator(".latency summary").click()
    page.get_by_role("button", name="Settings").click()
    yield "settings"


def models(watched: WatchedPage, _: RunningServer, is_shown: bool) -> Iterator[str]:
    page = open_as_admin(watched, "models")
    expect(page.get_by_role("button", name="Unload").first).to_be_visible()
    yield "listed"


def engine(watched: WatchedPage, server: RunningServer, is_shown: bool) -> Iterator[str]:
    page = open_as_admin(watched, "engine")
    expect(page.locator(".feed-state")).to_have_text("Live")
    with load(server.url, tokens=24 if is_shown else 8):
        expect(page.locator(".requests .state.finished").nth(24 if is_shown else 2)).to_be_visible()
    yield "live"


def look(page: Page, shape: str, scheme: str, height: int | None = None) -> None:
    """Show a page in one look."""
    size = SHAPES[shape]
    page.set_viewport_size({"width": size["width"], "height": height or size["height"]})
    page.emulate_media(color_scheme=scheme)
    page.evaluate(TWO_FRAMES)


@pytest.mark.parametrize("view", [chat, speak, transcribe, talk, models, engine])
def test_a_view_is_accessible_and_fits(
    watched: WatchedPage, page_server: RunningServer, view: States, pytestconfig: pytest.Config
) -> None:
    folder: Path | None = pytestconfig.getoption("--screenshots")
    for number, state in enumerate(view(watched, page_server, folder is not None)):
        page = watched.page
        for shape, scheme in LOOKS if number == 0 else FEWER_LOOKS:
            look(page, shape, scheme)
            watched.check_accessible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (state, shape, scheme)
            if number > 0:
                continue
            name = f"{view.__name__}-{shape}-{scheme}.png"
            assert (IMAGES / name).is_file(), "the docs lack a picture"
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                look(page, shape, scheme, HEIGHTS.get((view.__name__, shape)))
                page.screenshot(path=folder / name, animations="disabled")
