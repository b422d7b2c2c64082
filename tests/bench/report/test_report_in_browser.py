"""Reports opened from disk in a browser: every plot is drawn in the colours of its series, and shows values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from antiphon.bench.compare import compare
from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.report.compare_report import RunComparison, compare_report
from antiphon.bench.report.serve_report import serve_report
from support.browser.watched_page import PHONE, watched_tab
from support.pages.bench_results import as_of_an_earlier_version, records, result
from support.pages.report_page import ReportPage

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens reports")]

#: For each plot the numbers of pixels in the colour of each of its series, which bars have in part.
PIXELS = """() => [...document.querySelectorAll(".plot")].map((plot) => {
  const canvas = plot.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const style = getComputedStyle(document.documentElement);
  const { series } = JSON.parse(plot.querySelector("script").textContent);
  return series.filter(({ kind }) => kind !== "guide").map(({ index }) => {
    const colour = style.getPropertyValue(`--c${index % 8}`).trim();
    const wanted = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      count += data[at + 3] > 150 && wanted.every((value, part) => Math.abs(data[at + part] - value) < 8);
    }
    return count;
  });
})"""


def one_run() -> str:
    return serve_report([result(records(60))])


def earlier_version() -> str:
    return serve_report([as_of_an_earlier_version(result(records(60)))])


def several_loads() -> str:
    rates = enumerate((1.0, 2.5, 8.0, 90.0))
    return serve_report([result(records(30, seed=index), Arrivals(request_rate=rate)) for index, rate in rates])


def comparison() -> str:
    before, after = result(records(60)), result(records(60, seed=1, slow=1.5))
    name = "</script><script>alert(1)</script>"
    return compare_report(
        [("before", [before]), (name, [after])], [RunComparison(name, compare(before, after, 0.05))], "5%"
    )


@pytest.mark.parametrize("made", [one_run, earlier_version, several_loads, comparison], ids=lambda made: made.__name__)
def test_every_series_is_drawn_in_its_colour(made: Callable[[], str], profile: BrowserContext, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(made(), encoding="utf-8")
    plots = ReportPage(path.read_text(encoding="utf-8")).plots
    with watched_tab(profile, "file://") as watched:
        page = watched.page
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto(path.as_uri())
            expect(page.locator("canvas")).to_have_count(len(plots))
            drawn = page.evaluate(PIXELS)
            assert len(drawn) == len(plots) and all(count > 20 for counts in drawn for count in counts), drawn
            watched.check_accessible()


def test_values_under_the_pointer_and_other_colours_and_sizes(profile: BrowserContext, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(several_loads(), encoding="utf-8")
    with watched_tab(profile, "file://") as watched:
        page = watched.page
        page.goto(path.as_uri())
        for name, wanted in (("load-tokens", "requests per second"), ("ttft", "within"), ("tokens", "at ")):
            plot = page.locator(f'.plot[aria-labelledby="{name}-title"]')
            expect(plot.locator(".tip")).to_be_hidden()
            plot.locator(".u-over").hover()
            expect(plot.locator(".tip")).to_contain_text(wanted)
        light = page.evaluate(PIXELS)
        page.emulate_media(color_scheme="dark")
        watched.wait_until("document.querySelectorAll('.plot canvas').length === 10")
        dark = page.evaluate(PIXELS)
        assert all(count > 20 for counts in (*light, *dark) for count in counts)
        page.set_viewport_size(PHONE)
        watched.wait_until("[...document.querySelectorAll('canvas')].every((one) => one.clientWidth < 340)")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
