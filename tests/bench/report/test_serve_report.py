"""Reports of runs: their numbers are those of the records, and nothing of a run can break out of the page."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.report.serve_report import serve_report
from antiphon.bench.table import result_table
from support.pages.bench_results import as_of_an_earlier_version, records, result
from support.pages.report_page import ReportPage

LATENCIES = ["ttft", "tpot", "itl", "e2e"]
OVER_TIME = ["tokens", "in-flight"]
#: Numbers of plots have six digits; milliseconds of results have four after the point.
NEAR = 1e-3


def values(of: list[MeasuredRequest], name: str) -> list[float]:
    if name == "itl":
        return [gap * 1e3 for record in of for gap in record.inter_token_gaps()]
    got = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "e2e": "end_to_end"}[name]
    return [getattr(record, got) * 1e3 for record in of]


@pytest.mark.parametrize("slow", [1.0, 0.01, 40.0])
def test_marks_and_curves_are_those_of_the_records(slow: float) -> None:
    of = records(60, slow=slow)
    page = ReportPage(serve_report([result(of)]))
    assert page.plots == LATENCIES + OVER_TIME
    for name in LATENCIES:
        wanted = values(of, name)
        plot = page.plot(name)
        for percent, (ms, share) in zip((50, 95, 99), plot.marks(), strict=True):
            assert share == percent / 100
            assert ms == pytest.approx(np.percentile(wanted, percent), rel=NEAR)
        [line] = plot.lines()
        assert line[0] == pytest.approx((min(wanted), 0), rel=NEAR, abs=1e-4)
        assert line[-1] == pytest.approx((max(wanted), 1), rel=NEAR)
        for ms, share in line[1:-1]:
            span = max(wanted) * 0.003
            low, high = (np.mean([value <= ms + side for value in wanted]) for side in (-span, span))
            assert low - 0.03 <= share <= high + 0.03


def test_the_acceptance_of_drafts_where_there_were_any() -> None:
    plain, drafting = records(8), records(8)
    for one in drafting:
        one.drafted_tokens, one.accepted_tokens = 8, 6
    content = result(drafting)
    assert "acceptance rate" not in serve_report([result(plain)]) and "drafts" not in result_table(result(plain))
    for page in (serve_report([content]), serve_report([result(plain), content])):
        assert "acceptance rate" in page and "75.0%" in page
    assert "drafts              64 tokens, 48 accepted (75.0%)" in result_table(content)
    assert "acceptance rate" not in serve_report([as_of_an_earlier_version(content)])


def test_throughput_and_requests_in_flight_over_time() -> None:
    of = records(60)
    content = result(of)
    page = ReportPage(serve_report([content]))
    [tokens] = page.plot("tokens").lines()
    area = sum((right[0] - left[0]) * left[1] for left, right in pairwise(tokens))
    assert area == pytest.approx(content["figures"]["output_tokens"], rel=NEAR)
    timeline = content["series"]["timeline"]
    [in_flight] = page.plot("in-flight").lines()
    assert [y for _, y in in_flight[::2]] == pytest.approx(timeline["in_flight"], rel=NEAR)
    assert in_flight[-1][0] == pytest.approx(timeline["bin_seconds"] * len(timeline["tokens"]), rel=NEAR)
    [band] = page.plot("in-flight").chart["series"]
    assert (band["low"], band["high"]) == (timeline["in_flight_min"], timeline["in_flight_max"])


def test_what_the_page_says() -> None:
    page = ReportPage(serve_report([result(records(60))]))
    for text in ("Load test of a-model", "http://host:1", "4 at a time", "2026-11-17 08:55 UTC", "a processor"):
        assert text in page.text
    assert (
        page.plot("ttft").chart["limits"] == [{"x": 300, "label": "objective 300 ms"}] and "ttft ≤ 300 ms" in page.text
    )
    assert page.tags["h1"] == page.tags["main"] == 1 and page.tags["details"] == page.tags["figure"] == 6


HOSTILE = "</style></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'&--><!--\x00\x1b\ud800\uffff]]>&#x3c;"


def test_nothing_of_a_run_becomes_markup() -> None:
    content = result(records(12))
    content["figures"]["errors"] = {HOSTILE: {"count": 1, "example": HOSTILE}}
    content["target"] |= {"model": HOSTILE, "base_url": HOSTILE, HOSTILE: HOSTILE}
    content["workload"] |= {"arrivals": HOSTILE, "seed": HOSTILE}
    content |= {"date": HOSTILE, "tool": HOSTILE, "machine": HOSTILE, "environment": {HOSTILE: HOSTILE}}
    second = copy.deepcopy(content) | {"load": {"concurrency": 9}}
    second["figures"]["errors"] = {}
    for results in ([content], [content, second]):
        html = serve_report(results)
        html.encode()
        page = ReportPage(html)
        assert all(page.plot(name).lines() for name in page.plots)
        assert html.count("<script") == html.count("</script") == 1 + len(page.plots)
        assert "<img" not in html and "\x00" not in html
        assert "</style></svg><script>alert(1)</script>" in page.text


def test_several_loads_are_plotted_against_each_other() -> None:
    runs = [
        result(records(30, seed=number, slow=1 + number), Arrivals(request_rate=rate))
        for number, rate in enumerate((1.0, 2.5, 8.0))
    ]
    page = ReportPage(serve_report(runs))
    assert page.plots[:4] == ["load-goodput", "load-tokens", "load-ttft", "load-tpot"]
    assert page.plot("load-goodput").chart["series"][-1]["kind"] == "guide"
    done, good = page.plot("load-goodput").lines()
    for line, wanted in (
        (done, [run["figures"]["requests_per_second"] for run in runs]),
        (good, [run["figures"]["goodput"]["requests_per_second"] for run in runs]),
    ):
        assert [x for x, _ in line] == pytest.approx([1.0, 2.5, 8.0], rel=0.01)
        assert [y for _, y in line] == pytest.approx(wanted, rel=0.01, abs=0.02)
    for name in ("ttft", "tpot"):
        middle, high = page.plot(f"load-{name}").lines()
        for line, part in ((middle, "p50"), (high, "p99")):
            assert [y for _, y in line] == pytest.approx(
                [run["figures"]["latency_ms"][name][part] for run in runs], rel=0.01
            )
    assert len(page.plot("ttft").lines()) == 3
    assert "the load itself" in page.text and "2.5 a second" in page.text


def test_loads_far_apart_are_on_a_logarithmic_axis() -> None:
    runs = [result(records(12), Arrivals(concurrency=count)) for count in (1, 8, 64)]
    for run in runs:
        run["figures"]["goodput"] = None
    page = ReportPage(serve_report(runs))
    plot = page.plot("load-goodput")
    [done] = plot.lines()
    assert plot.chart["x"]["is_log"] and [x for x, _ in done] == pytest.approx([1, 8, 64], rel=0.02)
    assert "Completed requests against load" in page.text and "the load itself" not in page.text


def failed(count: int) -> list[MeasuredRequest]:
    return [
        MeasuredRequest(1.0 + index, 1.0 + index, 2.0 + index, error="http_429", message="too many")
        for index in range(count)
    ]


def test_no_request_succeeded() -> None:
    page = ReportPage(serve_report([result(failed(4))]))
    assert page.plots == OVER_TIME
    assert "No request completed, so there are no latencies." in page.text
    assert "4 requests failed" in page.text and "too many" in page.text
    assert len(page.plot("tokens").chart["failures"]) == 4


def test_one_request_of_one_token() -> None:
    page = ReportPage(serve_report([result(records(1, tokens=1))]))
    assert page.plots == ["ttft", "e2e", *OVER_TIME]
    assert len({x for x, _ in page.plot("ttft").marks()}) == 1
    assert "1 request." in page.text


def test_requests_that_took_no_time() -> None:
    content = result(records(3))
    zero = {"count": 3, "ranks": [0, 1, 2], "ms": [0.0, 0.0, 0.0]}
    content["series"] = {"latency_ms": dict.fromkeys(LATENCIES, zero), "timeline": None}
    page = ReportPage(serve_report([content]))
    assert page.plots == LATENCIES and page.plot("ttft").marks()[0] == (0, 0.5)
    assert "no data over time" in page.text


def without_numbers(value: Any) -> Any:
    """Figures that were not numbers are null in JSON."""
    if isinstance(value, dict):
        return {name: without_numbers(part) for name, part in value.items()}
    return None if isinstance(value, float) else value


def test_figures_that_are_no_numbers() -> None:
    content = result(records(10))
    content["figures"] = without_numbers(content["figures"])
    page = ReportPage(serve_report([content]))
    assert "–" in page.text and "nan" not in page.text.lower().split()
    content["figures"]["latency_ms"]["ttft"]["p50"] = math.nan
    ReportPage(serve_report([content]))


def test_a_file_of_an_earlier_version_has_histograms_and_a_sentence() -> None:
    content = result(records(60))
    page = ReportPage(serve_report([as_of_an_earlier_version(content)]))
    assert page.plots == LATENCIES
    assert "these are its histograms" in page.text and "no data over time: this run" in page.text
    [bars] = page.plot("ttft").chart["series"]
    assert bars["kind"] == "bars" and bars["y"] == content["figures"]["latency_ms"]["ttft"]["histogram"]


def test_a_run_of_a_hundred_thousand_tokens_is_a_small_file_with_its_extremes() -> None:
    of = records(400, tokens=250)
    of[7].arrival_times[100:] = [moment + 30 for moment in of[7].arrival_times[100:]]  # one gap of 30 s
    of[7].ended += 30
    html = serve_report([result(of)])
    assert len(html) < 400_000
    page = ReportPage(html)
    assert page.plot("itl").lines()[0][-1][0] == pytest.approx(max(values(of, "itl")), rel=NEAR)
    assert page.plot("itl").marks()[2][0] == pytest.approx(np.percentile(values(of, "itl"), 99), rel=0.01)


def test_many_loads_stay_below_a_megabyte() -> None:
    runs = [result(records(100, tokens=50, seed=count), Arrivals(concurrency=count)) for count in range(1, 13)]
    html = serve_report(runs)
    assert len(html) < 1_000_000
    page = ReportPage(html)
    assert [series["index"] for series in page.plot("ttft").chart["series"]] == list(range(12))
