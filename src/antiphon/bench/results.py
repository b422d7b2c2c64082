"""Result files of `antiphon bench serve --output`: a run, or runs at several loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.bench.result_files import FORMAT, read_json
from antiphon.bench.series import Series
from antiphon.errors import InvalidRequestError

SWEEP = "sweep"


def sweep(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine runs at several loads into a result, in their order."""
    shared = {name: runs[0][name] for name in ("format", "tool", "machine", "date")}
    return {**shared, "kind": SWEEP, "runs": list(runs)}


def read_runs(path: Path) -> list[dict[str, Any]]:
    """Read the runs of a file: one, or one per load."""
    result = read_json(path)
    if isinstance(result, dict) and result.get("kind") in ("latency", "throughput"):
        raise InvalidRequestError(
            f"{path} was written by `antiphon bench {result['kind']}`; only results of `antiphon bench serve` are read"
        )
    is_sweep = isinstance(result, dict) and result.get("kind") == SWEEP and isinstance(result.get("runs"), list)
    runs = result["runs"] if is_sweep else [result]
    if not runs or not all(map(_is_run, runs)):
        raise InvalidRequestError(f"{path} was not written by `antiphon bench serve --output` of this version")
    return list(runs)


def _is_run(result: Any) -> bool:
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        return False
    figures = result.get("figures")
    return (
        isinstance(figures, dict)
        and isinstance(figures.get("latency_ms"), dict)
        and isinstance(result.get("workload"), dict)
    )


def series_of(result: dict[str, Any]) -> Series:
    """Return a run's plotted data; empty for files of earlier versions."""
    try:
        return msgspec.convert(result.get("series") or {}, Series)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"the series of a result cannot be read: {error}") from error
