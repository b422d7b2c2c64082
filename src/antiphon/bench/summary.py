"""Figures of a run as JSON-compatible numbers: latencies, throughput, goodput and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from antiphon.bench.load.generator import LoadResult
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.records import MeasuredRequest, latencies
from antiphon.bench.series import PERCENTILES

NUM_BINS = 24


def distribution(seconds: Sequence[float]) -> dict[str, Any] | None:
    """Return the distribution in milliseconds, or None without values."""
    if not seconds:
        return None
    values = np.sort(seconds) * 1e3
    low, high = float(values[0]), float(values[-1])
    figures: dict[str, Any] = {"count": len(values), "mean": math.fsum(values) / len(values)}
    percentiles = np.percentile(values, PERCENTILES).tolist()
    figures |= {f"p{percent}": value for percent, value in zip(PERCENTILES, percentiles, strict=True)}
    counts, _ = np.histogram(values, NUM_BINS, (low, high if high > low else low + 1))
    return figures | {"min": low, "max": high, "histogram": counts.tolist()}


def measures(record: MeasuredRequest) -> dict[str, float | None]:
    """Return the measures that objectives apply to, in milliseconds."""
    per_token = record.time_per_output_token
    return {
        "ttft": record.time_to_first_token * 1e3,
        "tpot": None if per_token is None else per_token * 1e3,
        "e2e": record.end_to_end * 1e3,
    }


def summarize(result: LoadResult, objectives: Objectives | None = None) -> dict[str, Any]:
    """Compute a run's figures. Latencies and tokens count whole answers only; failed requests count only as errors."""
    whole = [record for record in result.records if record.error is None]
    seconds = result.seconds
    output = sum(record.num_output_tokens for record in whole)
    prompt = sum(record.prompt_tokens or 0 for record in whole)
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
        "latency_ms": {name: distribution(values) for name, values in latencies(whole).items()},
        "goodput": None,
        "errors": errors_by_kind(result.records),
        "tool": {
            "cpu_share": result.cpu_seconds / seconds,
            "cpu_us_per_token": result.cpu_seconds / output * 1e6 if output else None,
            "late_ms_p99": float(np.percentile([(record.started - record.due) * 1e3 for record in result.records], 99)),
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
    """Count errors by kind, each with the first message."""
    kinds: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.error is not None:
            kinds.setdefault(record.error, {"count": 0, "example": record.message})["count"] += 1
    return dict(sorted(kinds.items(), key=lambda item: -item[1]["count"]))
