"""Figures of a run: latencies, throughput, goodput and errors, as plain numbers that can be written as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from antiphon.bench.load.generator import LoadResult
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.percentiles import PERCENTILES, percentile

NUM_BINS = 24


def distribution(seconds: Sequence[float]) -> dict[str, Any] | None:
    """Milliseconds; None if there are no values."""
    if not seconds:
        return None
    values = sorted(value * 1e3 for value in seconds)
    figures: dict[str, Any] = {"count": len(values), "mean": math.fsum(values) / len(values)}
    figures |= {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}
    return figures | {"min": values[0], "max": values[-1], "histogram": histogram(values)}


def histogram(ordered: Sequence[float]) -> list[int]:
    """Counts in equal bins from the smallest value to the largest."""
    counts = [0] * NUM_BINS
    low, width = ordered[0], (ordered[-1] - ordered[0]) / NUM_BINS
    for value in ordered:
        counts[min(NUM_BINS - 1, int((value - low) / width)) if width > 0 else 0] += 1
    return counts


def measures(record: MeasuredRequest) -> dict[str, float | None]:
    """The measures that objectives apply to, in milliseconds."""
    per_token = record.time_per_output_token
    return {
        "ttft": record.time_to_first_token * 1e3,
        "tpot": None if per_token is None else per_token * 1e3,
        "e2e": record.end_to_end * 1e3,
    }


def summarize(result: LoadResult, objectives: Objectives | None = None) -> dict[str, Any]:
    """Latencies and tokens are those of the whole answers; failed requests are counted under `errors` alone."""
    whole = [record for record in result.records if record.error is None]
    seconds = result.seconds
    output = sum(record.num_output_tokens for record in whole)
    prompt = sum(record.prompt_tokens or 0 for record in whole)
    per_token = [value for record in whole if (value := record.time_per_output_token) is not None]
    figures: dict[str, Any] = {
        "seconds": seconds,
        "completed": len(whole),
        "failed": len(result.records) - len(whole),
        "requests_per_second": len(whole) / seconds,
        "input_tokens": prompt,
        "output_tokens": output,
        "cached_tokens": sum(record.cached_tokens or 0 for record in whole),
        "drafted_tokens": sum(record.drafted_tokens or 0 for record in whole),
        "accepted_tokens": sum(record.accepted_tokens or 0 for record in whole),
        "tells_cached_tokens": any(record.cached_tokens is not None for record in whole),
        "tokens_counted_by": "usage" if all(record.completion_tokens is not None for record in whole) else "chunks",
        "chunks": sum(record.num_chunks for record in whole),
        "output_tokens_per_second": output / seconds,
        "total_tokens_per_second": (prompt + output) / seconds,
        "latency_ms": {
            "ttft": distribution([record.time_to_first_token for record in whole]),
            "tpot": distribution(per_token),
            "itl": distribution([gap for record in whole for gap in record.inter_token_gaps()]),
            "chunk_gap": distribution([gap for record in whole for gap in record.chunk_gaps()]),
            "e2e": distribution([record.end_to_end for record in whole]),
        },
        "goodput": None,
        "errors": errors_by_kind(result.records),
        "tool": {
            "cpu_share": result.cpu_seconds / seconds,
            "cpu_us_per_token": result.cpu_seconds / output * 1e6 if output else None,
            "late_ms_p99": percentile(sorted((record.started - record.due) * 1e3 for record in result.records), 99),
        },
    }
    if objectives is not None:
        good = sum(objectives.are_met(measures(record)) for record in whole)
        figures["goodput"] = {
            "slo_ms": dict(objectives.limits),
            "requests_per_second": good / seconds,
            "share": good / len(result.records),
        }
    return figures


def errors_by_kind(records: Sequence[MeasuredRequest]) -> dict[str, dict[str, Any]]:
    """How many of each kind, and the first one's message."""
    kinds: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.error is not None:
            kinds.setdefault(record.error, {"count": 0, "example": record.message})["count"] += 1
    return dict(sorted(kinds.items(), key=lambda item: -item[1]["count"]))
