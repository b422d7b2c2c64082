"""The progress of downloads: figures that are never silly, lines that are never doubled."""

from __future__ import annotations

import pytest

from antiphon.cli.terminal.download_progress import Rate, fetch_progress, progress_text, time_left_text
from antiphon.cli.terminal.sizes import size_text
from antiphon.weights.catalog.fetch import FetchProgress


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (491_400_064, "491.4 MB"), (12_345_678_901, "12.3 GB")],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.2, "0:00 left"), (65, "1:05 left"), (7400, "2:03:20 left"), (284 * 3600, ""), (float("inf"), "")],
)
def test_times(seconds: float | None, text: str) -> None:
    assert time_left_text(seconds) == text


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_rate_is_unknown_at_first_and_that_of_the_last_seconds_later() -> None:
    clock = Clock()
    rate = Rate(clock)
    assert rate.bytes_per_second() is None
    rate.add("a", 0)
    clock.now = 0.5
    rate.add("a", 40)
    assert rate.bytes_per_second() is None, "half a second says nothing yet"
    for second in range(1, 31):
        clock.now = float(second)
        rate.add("a", 1000 * second)
    assert rate.bytes_per_second() == 1000
    for second in range(31, 61):
        clock.now = float(second)
        rate.add("a", 30_000 + 10 * (second - 30))
    assert rate.bytes_per_second() == 10


def test_what_another_step_finds_on_the_disk_is_not_a_rate() -> None:
    clock = Clock()
    rate = Rate(clock)
    rate.add("part 1", 0)
    clock.now = 5.0
    rate.add("part 2", 400_000_000)
    clock.now = 7.0
    rate.add("part 2", 400_000_200)
    assert rate.bytes_per_second() == 100


def test_a_download_that_stands_still_has_no_time_left() -> None:
    clock = Clock()
    rate = Rate(clock)
    for second in range(20):
        clock.now = float(second)
        rate.add("a", 17)
    update = FetchProgress("m", "a", 17, 1_000_000)
    assert progress_text(update, rate.bytes_per_second()) == "17 B of 1.0 MB"
    assert progress_text(update, 1.0) == "17 B of 1.0 MB, 1 B/s", "eleven days are not shown"
    assert progress_text(update, 100_000.0) == "17 B of 1.0 MB, 100.0 kB/s, 0:10 left"


def test_lines_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    updates = [
        FetchProgress("m", "the hub is not reachable.", 0, 2000, is_notice=True),
        FetchProgress("m", "downloading a", 0, 2000),
        FetchProgress("m", "downloading a", 500, 2000),
        FetchProgress("m", "verifying a", 1000, 2000),
        FetchProgress("m", "downloading a", 1000, 2000),
    ]
    with fetch_progress() as report:
        for update in updates:
            report(update)
    assert capsys.readouterr().err.splitlines() == [
        "m: the hub is not reachable.",
        "m: downloading a (0 B of 2.0 kB)",
        "m: verifying a (1.0 kB of 2.0 kB)",
    ]
