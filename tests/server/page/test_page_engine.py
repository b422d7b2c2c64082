"""The view of the engine: plots that move under load, the cache as a map, a timeline that keys and a wheel move."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support.browser.admin_view import CHAT_MODEL, load, open_as_admin
from support.browser.watched_page import PHONE, WatchedPage
from support.server.http_server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]
#: Steps of a full timeline.
NUM_STEPS = 5000
#: Hands a number of steps of the chat model to the module that keeps them, and returns how many it has.
FILL = """async (count) => {
  const address = [...performance.getEntriesByType("resource")].map((one) => one.name).find((name) => name.endsWith("/views/engine/feed.js"));
  const feed = await import(address);
  const clock = feed.now();
  const model = feed.models.value.find((one) => one.role === "decoder").name;
  const steps = Array.from({ length: count }, (_, place) =>
    [place, model, place % 9 ? "decode" : "mixed", clock - (count - place) * 0.002, 1800, 4, place % 9 ? 0 : 1, place % 9 ? 0 : 16, 4, 0, 10, 20, 1700, 50, 20]);
  feed.add({ clock, steps });
  return feed.known.steps.length;
}"""  # noqa: E501


#: Discards the activity before the page was opened, as on a server that has just started.
FORGET = """async () => {
  const address = [...performance.getEntriesByType("resource")].map((one) => one.name).find((name) => name.endsWith("/views/engine/feed.js"));
  const { known, version } = await import(address);
  Object.assign(known, { steps: [], ended: [], requests: new Map() });
  known.series.seconds.clear();
  known.series.first = null;
  version.value += 1;
}"""  # noqa: E501


def opened(watched: WatchedPage) -> Page:
    """Open the view and wait until the engine's snapshot is there."""
    page = open_as_admin(watched, "engine")
    expect(page.locator(".feed-state")).to_have_text("Live")
    return page


def test_the_plots_move_under_load(watched: WatchedPage, page_server: RunningServer) -> None:
    page = opened(watched)
    decode = page.locator("[data-title='Tokens per second'] b").first
    with load(page_server.url):
        expect(page.locator(f".queues [data-model='{CHAT_MODEL}'] b").first).to_have_text("3")
        expect(decode).to_have_text(re.compile("[1-9]"))
        before = decode.inner_text()
        expect(decode).not_to_have_text(before)
        for title in ("Time to first token", "Gap between tokens"):
            expect(page.locator(f"[data-title='{title}'] b").first).to_contain_text("s")
        expect(page.locator("[data-title^='Goodput'] b").last).not_to_have_text("–")
        expect(page.locator("canvas.map").first).to_be_visible()
        expect(page.locator(".requests .state.running").first).to_be_visible()
        expect(page.locator(".requests .state.finished").first).to_be_visible()
    expect(page.locator(f".queues [data-model='{CHAT_MODEL}'] b").first).to_have_text("0")
    page.locator(".requests tbody tr").first.hover()
    expect(page.locator("section[aria-label='Timeline'] .detail")).to_contain_text("first token after")


def test_a_narrow_screen_has_figures_in_place_of_empty_plots(watched: WatchedPage, page_server: RunningServer) -> None:
    """A page opened after more steps than one report has tells of no events that were left out."""
    page_server.wait_until_idle()
    watched.page.set_viewport_size(PHONE)
    page = opened(watched)
    plots = page.locator(".plot-place")
    page.evaluate(FORGET)
    expect(plots).to_have_count(0)
    expect(page.get_by_text("No request in the last two minutes.")).to_be_visible()
    expect(page.locator("[data-title='Tokens per second'] b")).to_have_text(["–", "–"])
    expect(page.get_by_text("Nothing ran in the last 10 s.")).to_be_visible()
    expect(page.locator("canvas.timeline")).to_have_count(0)
    watched.check_accessible()
    page.evaluate(FILL, 700)
    expect(plots).to_have_count(1)
    expect(page.locator("canvas.timeline")).to_be_visible()
    expect(page.locator("section[aria-label='Timeline'] .plot-keys")).to_contain_text("Prefill and decode")
    expect(page.get_by_text("came faster")).to_have_count(0)


@pytest.mark.slow
def test_the_timeline_moves_by_keys_wheel_and_drag_and_keeps_five_thousand_steps(
    watched: WatchedPage, page_server: RunningServer
) -> None:
    page = opened(watched)
    page.get_by_label("Target for the first token, ms").fill("0.001")
    page.get_by_label("Target for each token, ms").fill("1")  # shorter than any step
    with load(page_server.url, streams=1, tokens=8):
        expect(page.locator(".requests .state.finished").first).to_contain_text("late")
    shown = page.locator(".timeline-span")
    expect(shown).to_have_text("10 s, following")
    timeline = page.locator("canvas.timeline")
    timeline.focus()
    page.keyboard.press("+")
    expect(shown).to_have_text("8.0 s, following")
    page.keyboard.press("-")
    page.keyboard.press("ArrowLeft")
    expect(shown).to_have_text("10 s")
    page.keyboard.press("End")  # all steps may be later than the window that was moved
    page.keyboard.press(",")
    detail = page.locator("section[aria-label='Timeline'] .detail")
    expect(detail).to_contain_text("Step ")
    first = detail.inner_text()
    page.keyboard.press(",")
    expect(detail).not_to_have_text(first)
    page.keyboard.press("Escape")
    expect(detail).to_contain_text("Point at")
    page.keyboard.press("End")
    expect(shown).to_have_text("10 s, following")
    box = timeline.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    page.mouse.wheel(0, -100)
    expect(shown).to_have_text("8.0 s")
    page.keyboard.press("End")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 100, box["y"] + 30, steps=4)
    page.mouse.up()
    expect(shown).to_have_text("10 s")
    page.get_by_role("button", name="Now").click()
    expect(shown).to_have_text("10 s, following")

    # More steps are discarded. How fast they are drawn is measured by benchmarks/page_timeline.py.
    assert page.evaluate(FILL, NUM_STEPS + 500) == NUM_STEPS
    label = re.compile(f"^Timeline of the last {NUM_STEPS} steps")
    expect(timeline).to_have_attribute("aria-label", label)
