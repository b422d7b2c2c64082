"""Labelled runs of a report; runs at several loads form a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.bench.results import series_of
from antiphon.bench.series import Series

LOADS = {"request_rate": "requests per second", "concurrency": "requests in flight"}


@dataclass(frozen=True)
class ServeRun:
    """Result of `bench serve`. `index` selects the colour of its curves."""

    label: str
    result: dict[str, Any]
    series: Series
    index: int = 0

    @property
    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = self.result["figures"]
        return figures

    @property
    def load(self) -> tuple[str, float] | None:
        """Kind and number of the load; None in files that lack it."""
        load = self.result.get("load")
        for kind in LOADS:
            value = number(load.get(kind)) if isinstance(load, dict) else None
            if value is not None and value > 0:
                return kind, value
        return None

    def latency(self, name: str, part: str) -> float | None:
        row = self.figures["latency_ms"].get(name)
        return number(row.get(part)) if isinstance(row, dict) else None

    def figure(self, name: str) -> float | None:
        return number(self.figures.get(name))

    def goodput(self) -> float | None:
        goodput = self.figures.get("goodput")
        return number(goodput.get("requests_per_second")) if isinstance(goodput, dict) else None

    def acceptance(self) -> float | None:
        """Return the accepted share of drafted tokens, or None without drafts."""
        drafted, accepted = self.figure("drafted_tokens"), self.figure("accepted_tokens")
        return accepted / drafted if drafted and accepted is not None else None


@dataclass(frozen=True)
class RunGroup:
    """Runs of a file."""

    label: str
    runs: Sequence[ServeRun]


def number(value: Any) -> float | None:
    """Return a finite number, or None: files have null for figures that are not numbers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def groups_of(files: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> list[RunGroup]:
    """Group labelled results by file. A run's label is its file, its load, or both if there are several of both."""
    groups, index = [], 0
    for label, results in files:
        runs = []
        for result in results:
            load = result["workload"].get("arrivals", "")
            parts = [label] * (len(files) > 1) + [str(load)] * (len(results) > 1)
            runs.append(ServeRun(", ".join(parts) or label, result, series_of(result), index))
            index += 1
        groups.append(RunGroup(label, runs))
    return groups


def file_labels(paths: Sequence[Path]) -> list[str]:
    """Return unique labels of files: the names, with folders if names repeat, and numbered if paths repeat."""
    for labels in ([path.stem for path in paths], [path.name for path in paths], [str(path) for path in paths]):
        if len(set(labels)) == len(labels):
            return labels
    return [f"{path} ({index})" for index, path in enumerate(paths, 1)]
