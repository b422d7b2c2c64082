"""Pictures of every view, wide and narrow, light and dark.

`pytest -m browser tests/server/page/test_page_screenshots.py --screenshots docs/images/page` makes those of the docs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.browser.admin_view import load, open_as_admin
from support.browser.chat_view import ask, seed_options, wait_for_answer
from support.browser.sound_views import drop
from support.browser.talking import ScriptedMicrophone, Witness, begin, preset
from support.browser.watched_page import PHONE, WIDE, WatchedPage
from support.server.http_server import RunningServer
from support.sound.speech import jfk

pytestmark = pytest.mark.browser
IMAGES = Path(__file__).parents[3] / "docs" / "images" / "page"
QUESTIONS = (
    "What is a choir? Answer in two sentences.",
    "Write a Python function that returns the square of a number, and explain it in one sentence.",
)
CLIP = "call-1"
#: Canvases are drawn again in the frame after a change.
TWO_FRAMES = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
#: Pixels of views that are longer than a screen, and are shown whole.
HEIGHTS = {("engine", "wide"): 1900, ("engine", "phone"): 2600, ("models", "phone"): 1200}


def chat(watched: WatchedPage, _: RunningServer) -> Page:
    page = watched.open()
    seed_options(watched, max_tokens=96, temperature=0)
    for number, question in enumerate(QUESTIONS, 1):
        ask(page, question)
        wait_for_answer(page, number)
    return page


def speak(watched: WatchedPage, _: RunningServer) -> Page:
    page = watched.open("speak")
    text = "Two choirs stand across from each other, and sing in turns. What one begins, the other one answers."
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.locator(".word.lit")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".reader")).to_have_attribute("data-state", "paused")
    return page


def transcribe(watched: WatchedPage, _: RunningServer) -> Page:
    page = watched.open("transcribe")
    expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
    drop(page.locator(".view-transcribe .view-body"), [("inauguration.wav", "audio/wav", jfk().read_bytes())])
    expect(page.locator(".record")).to_have_attribute("data-state", "done")
    return page


def talk(watched: WatchedPage, _: RunningServer) -> Page:
    preset(watched.page, max_tokens=24)
    microphone, witness = ScriptedMicrophone(watched.page), Witness(watched.page)
    page = watched.open("talk")
    begin(page)
    microphone.keep(CLIP)
    microphone.say(CLIP)
    witness.wait_until_heard()
    expect(page.locator(".latency").first).to_be_visible()
    return page


def models(watched: WatchedPage, _: RunningServer) -> Page:
    page = open_as_admin(watched, "models")
    expect(page.get_by_role("button", name="Unload").first).to_be_visible()
    return page


def engine(watched: WatchedPage, server: RunningServer) -> Page:
    page = open_as_admin(watched, "engine")
    expect(page.locator(".feed-state")).to_have_text("Live")
    with load(server.url):
        expect(page.locator(".requests .state.finished").nth(24)).to_be_visible()
    return page


@pytest.mark.parametrize("view", [chat, speak, transcribe, talk, models, engine])
def test_pictures(
    watched: WatchedPage,
    page_server: RunningServer,
    view: Callable[[WatchedPage, RunningServer], Page],
    pytestconfig: pytest.Config,
    tmp_path: Path,
) -> None:
    page = view(watched, page_server)
    folder = pytestconfig.getoption("--screenshots") or tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    for shape, size in (("wide", WIDE), ("phone", PHONE)):
        height = HEIGHTS.get((view.__name__, shape), size["height"])
        page.set_viewport_size({"width": size["width"], "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate(TWO_FRAMES)
            name = f"{view.__name__}-{shape}-{scheme}.png"
            page.screenshot(path=folder / name, animations="disabled")
            assert (IMAGES / name).is_file(), "the docs lack a picture"
