"""Tables of a run's figures with small histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from antiphon.counted import counted

LABELS = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "inter-token gap",
    "chunk_gap": "gap between chunks",
    "e2e": "end to end",
}
COLUMNS = ("mean", "p50", "p90", "p99", "max")
BARS = " ▁▂▃▄▅▆▇█"
#: Share of a core above which the tool itself may limit the figures.
BUSY_SHARE = 0.8


def bars(counts: list[int]) -> str:
    """Return a bar per count; counts above zero are always visible."""
    most = max(counts)
    return "".join(BARS[0 if not count else max(1, round(count / most * 8))] for count in counts)


def result_table(result: dict[str, Any]) -> str:
    """Format a result as written by `bench serve --output`."""
    figures, workload = result["figures"], result["workload"]
    lines = [
        f"{result['target']['model']} at {result['target']['base_url']}: "
        f"{counted(workload['requests'], 'request')} to the {workload['endpoint']} endpoint, {workload['arrivals']}",
        "",
        f"requests    {figures['completed']:>10,} done, {figures['failed']:,} failed in {figures['seconds']:.1f} s: "
        f"{figures['requests_per_second']:.2f} a second",
        f"input       {figures['input_tokens']:>10,} tokens{_cached(figures)}",
        f"output      {figures['output_tokens']:>10,} tokens in {figures['chunks']:,} chunks: "
        f"{figures['output_tokens_per_second']:,.1f} a second "
        f"({figures['total_tokens_per_second']:,.1f} with the input)",
    ]
    if figures.get("drafted_tokens"):
        drafted, accepted = figures["drafted_tokens"], figures["accepted_tokens"]
        lines.append(f"drafts      {drafted:>10,} tokens, {accepted:,} accepted ({accepted / drafted:.1%})")
    goodput = figures["goodput"]
    if goodput is not None:
        limits = ", ".join(f"{name} ≤ {limit:g} ms" for name, limit in goodput["slo_ms"].items())
        lines.append(
            f"goodput     {goodput['requests_per_second']:>10.2f} requests a second ({goodput['share']:.1%}) "
            f"with {limits}"
        )
    lines += ["", f"{'milliseconds':22}" + "".join(f"{column:>10}" for column in COLUMNS) + "  smallest to largest"]
    for name, label in LABELS.items():
        row = figures["latency_ms"][name]
        if row is not None:
            values = "".join(f"{row[column]:>10,.1f}" for column in COLUMNS)
            lines.append(f"{label:22}{values}  {bars(row['histogram'])}".rstrip())
    for kind, error in figures["errors"].items():
        lines.append(f"error {kind}: {error['count']:,} × ({error['example']})")
    return "\n".join([*lines, *remarks(result)])


def _cached(figures: dict[str, Any]) -> str:
    if not figures["tells_cached_tokens"] or not figures["input_tokens"]:
        return ""
    return f", {figures['cached_tokens']:,} of them cached ({figures['cached_tokens'] / figures['input_tokens']:.1%})"


def remarks(result: dict[str, Any]) -> list[str]:
    figures, share = result["figures"], (result["figures"].get("tool") or {}).get("cpu_share") or 0.0
    found = []
    if figures.get("tokens_counted_by") == "chunks":
        found.append("note: the server reports no usage, so a chunk was counted as a token")
    if result.get("target", {}).get("refused_ignore_eos"):
        found.append("note: the server rejects ignore_eos, so answers may be shorter than requested")
    if share > BUSY_SHARE:
        found.append(f"note: this tool used {share:.0%} of a core and may have been the limit itself")
    return found


def load_table(results: Sequence[dict[str, Any]]) -> str:
    """Format a line per load."""
    lines = [f"{'load':24}{'requests/s':>12}{'goodput':>10}{'tokens/s':>11}{'ttft p50':>11}{'p99':>11}{'tpot p50':>11}"]
    for result in results:
        figures, latency = result["figures"], result["figures"]["latency_ms"]
        goodput = figures["goodput"]
        good = "" if goodput is None else f"{goodput['requests_per_second']:,.2f}"
        times = [("ttft", "p50"), ("ttft", "p99"), ("tpot", "p50")]
        values = "".join(f"{latency[name][part] if latency[name] else math.nan:>11,.1f}" for name, part in times)
        lines.append(
            f"{result['workload']['arrivals']:24}{figures['requests_per_second']:>12,.2f}{good:>10}"
            f"{figures['output_tokens_per_second']:>11,.1f}{values.replace('nan', '  –')}"
        )
    return "\n".join(lines)
