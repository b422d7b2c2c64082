"""Reports of `antiphon bench serve`: a run, or runs at several loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.bench.report import page
from antiphon.bench.report.chart import short
from antiphon.bench.report.load_plots import load_plots
from antiphon.bench.report.page import FigureCard
from antiphon.bench.report.plots import Named, Plot, curve_plot, histogram_plot, in_flight_plot, rate_plot
from antiphon.bench.report.runs import RunGroup, ServeRun, groups_of, number
from antiphon.bench.table import LABELS, remarks
from antiphon.counted import counted

#: Plotted latencies, and the items that each one counts.
THINGS = {"ttft": "requests", "tpot": "requests", "itl": "tokens", "e2e": "requests"}
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
NAMES = {
    "base_url": "server", "counts_tokens": "server counts tokens", "refused_ignore_eos": "server rejects ignore_eos",
    "input_tokens": "tokens of a prompt", "output_tokens": "tokens of an answer", "arrivals": "load",
    "shared_prefix_tokens": "tokens of the shared prefix", "dataset_sha256": "SHA-256 of the prompts' file",
    "ignore_eos": "answers of full length", "tool": "measured by", "machine": "measured on",
}  # fmt: skip


def serve_report(results: Sequence[dict[str, Any]]) -> str:
    """Render the page of a run, or of runs at several loads."""
    target, workload = results[0].get("target", {}), results[0]["workload"]
    groups = groups_of([(str(workload.get("arrivals", "run")), results)])
    runs = list(groups[0].runs)
    loads = f"{len(runs)} loads" if len(runs) > 1 else str(workload.get("arrivals", ""))
    requests = counted(int(number(workload.get("requests")) or 0), "request") + (" each" if len(runs) > 1 else "")
    parts = [
        str(target.get("base_url", "")), requests, loads,
        page.date_of(results[0].get("date", "")),
    ]  # fmt: skip
    return page.page(
        f"Load test of {target.get('model', 'a model')}",
        " · ".join(part for part in parts if part),
        [page.cards(_cards(runs[0])) if len(runs) == 1 else "", *common_sections(groups)],
    )


def common_sections(groups: Sequence[RunGroup]) -> list[str]:
    """Return the sections shared by reports of runs and of comparisons."""
    runs = [run for group in groups for run in group.runs]
    distributions, missing = latency_plots(runs)
    over_time, missing_times = time_plots(runs)
    return [
        page.section("Load", page.plots(load_plots(groups))),
        page.section("Latency", page.plots(distributions), page.sentences(missing)),
        page.section("Over time", page.plots(over_time), page.sentences(missing_times)),
        page.section("Figures", page.boxes([_figures_table(runs), *map(_latency_table, runs)])),
        page.section("Errors and remarks", page.sentences(_remarks(runs))),
        page.section("Settings and environment", page.box(_settings(runs))),
    ]


def _cards(run: ServeRun) -> list[FigureCard]:
    figures = run.figures
    shown = [
        FigureCard("Tokens per second", short(run.figure("output_tokens_per_second") or 0.0),
             f"{short(run.figure('total_tokens_per_second') or 0.0)} with the input"),
        FigureCard("Requests", f"{int(figures.get('completed', 0)):,}",
             f"done, {int(figures.get('failed', 0)):,} failed, in {short(run.figure('seconds') or 0.0)} s"),
    ]  # fmt: skip
    for name in ("ttft", "tpot", "e2e"):
        middle, high = run.latency(name, "p50"), run.latency(name, "p99")
        if middle is not None and high is not None:
            shown.append(
                FigureCard(f"{LABELS[name].capitalize()}", f"{short(middle)} ms", f"median; p99 {short(high)} ms")
            )
    goodput = run.goodput()
    if goodput is not None:
        share = number(figures["goodput"].get("share")) or 0.0
        shown.append(FigureCard("Goodput", f"{short(goodput)} req/s", f"{share:.1%} met the objectives"))
    return shown


def latency_plots(runs: Sequence[ServeRun]) -> tuple[list[Plot], list[str]]:
    """Return the distributions, and sentences about missing ones."""
    made, sentences = [], []
    lacking = [run.label for run in runs if not run.series.latency_ms and run.figure("completed")]
    for name, things in THINGS.items():
        curves = [
            Named(run.label, run.index, run.series.latency_ms[name]) for run in runs if name in run.series.latency_ms
        ]
        title = LABELS[name].capitalize()
        if curves:
            made.append(curve_plot(name, title, things, curves, _objective(runs, name)))
        elif len(runs) == 1 and _has_histogram(runs[0].figures["latency_ms"].get(name)):
            made.append(histogram_plot(name, title, things, runs[0].figures["latency_ms"][name]))
    if lacking and len(runs) > 1:
        sentences.append(f"Left out, because these results were written without distributions: {', '.join(lacking)}.")
    elif lacking:
        sentences.append("The result was written without whole distributions; these are its histograms.")
    if not made and not lacking:
        sentences.append("No request completed, so there are no latencies.")
    return made, sentences


def _has_histogram(figures: Any) -> bool:
    if not isinstance(figures, dict) or not isinstance(figures.get("histogram"), list) or not figures["histogram"]:
        return False
    return all(number(figures.get(name)) is not None for name in ("min", "max", "count"))


def _objective(runs: Sequence[ServeRun], name: str) -> float | None:
    """Return the limit of a measure if it is equal in all runs, else None."""
    limits = {number(goodput["slo_ms"].get(name)) if (goodput := run.figures.get("goodput")) else None for run in runs}
    return limits.pop() if len(limits) == 1 else None


def time_plots(runs: Sequence[ServeRun]) -> tuple[list[Plot], list[str]]:
    lines = [Named(run.label, run.index, run.series.timeline) for run in runs if run.series.timeline is not None]
    lacking = [run.label for run in runs if run.series.timeline is None]
    sentences = []
    if lacking:
        what = ", ".join(lacking) if len(runs) > 1 else "this run"
        sentences.append(f"Left out, because the result has no data over time: {what}.")
    if not lines:
        return [], sentences
    return [
        rate_plot("tokens", "Throughput", "tokens per second", [(one, one.data.tokens) for one in lines]),
        in_flight_plot("in-flight", "Requests in flight", "requests", lines),
    ], sentences


def _figures_table(runs: Sequence[ServeRun]) -> str:
    rows = [
        ("requests done", "completed", ",.0f"), ("requests failed", "failed", ",.0f"), ("seconds", "seconds", ",.1f"),
        ("requests per second", "requests_per_second", ",.2f"), ("input tokens", "input_tokens", ",.0f"),
        ("cached input tokens", "cached_tokens", ",.0f"), ("output tokens", "output_tokens", ",.0f"),
        ("output tokens per second", "output_tokens_per_second", ",.1f"),
        ("tokens per second with the input", "total_tokens_per_second", ",.1f"),
    ]  # fmt: skip
    made = [[name, *(_written(run.figure(key), form) for run in runs)] for name, key, form in rows]
    if any(run.figure("drafted_tokens") for run in runs):
        rows = [("drafted tokens", "drafted_tokens", ",.0f"), ("accepted of them", "accepted_tokens", ",.0f")]
        made += [[name, *(_written(run.figure(key), form) for run in runs)] for name, key, form in rows]
        made.append(["acceptance rate", *(_written(run.acceptance(), ".1%") for run in runs)])
    if any(run.goodput() is not None for run in runs):
        made.append(["goodput, requests per second", *(_written(run.goodput(), ",.2f") for run in runs)])
    return page.table(["", *(run.label for run in runs)], made)


def _latency_table(run: ServeRun) -> str:
    rows = [
        [label, *(_written(run.latency(name, column), ",.1f") for column in COLUMNS)]
        for name, label in LABELS.items()
        if run.latency(name, "mean") is not None
    ]
    return page.table([f"{run.label}: milliseconds", *COLUMNS], rows) if rows else ""


def _written(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def _remarks(runs: Sequence[ServeRun]) -> list[str]:
    texts = []
    for run in runs:
        found = [
            f"error {kind}: {int(error.get('count', 0)):,} × ({error.get('example', '')})"
            for kind, error in (run.figures.get("errors") or {}).items()
        ] + [text.removeprefix("note: ") for text in remarks(run.result)]
        texts += [f"{run.label}: {text}" if len(runs) > 1 else text[:1].upper() + text[1:] for text in found]
    return texts


def _settings(runs: Sequence[ServeRun]) -> str:
    """Render settings, those equal in all runs once."""
    columns = [_described(run.result) for run in runs]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = []
    for name in names:
        values = [column.get(name, "–") for column in columns]
        rows.append([name, *(values[:1] if len(set(values)) == 1 else values)])
    if len(runs) == 1:
        return page.settings(rows)
    same = [row for row in rows if len(row) == 2]
    different = [row for row in rows if len(row) > 2]
    return page.settings(different, ["differs", *(run.label for run in runs)]) * bool(different) + page.settings(same)


def _described(result: dict[str, Any]) -> dict[str, str]:
    own = {name: result.get(name) for name in ("date", "tool", "machine")}
    objectives = ((result["figures"].get("goodput") or {}).get("slo_ms")) or {}
    limits = ", ".join(f"{name} ≤ {limit:g} ms" for name, limit in objectives.items() if number(limit) is not None)
    parts = result.get("target"), result["workload"], {"objectives": limits or None}, own, result.get("environment")
    return page.described(parts, NAMES)
