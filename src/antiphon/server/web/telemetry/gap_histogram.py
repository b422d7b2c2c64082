"""`GapHistogram`: a Prometheus histogram of the time between two tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class GapHistogram(Collector):
    """Histogram filled once per request: calling Prometheus's own for every token would cost too much."""

    def __init__(self, name: str, text: str, buckets: tuple[float, ...]) -> None:
        self._name = name
        self._text = text
        self._buckets = buckets
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, model: str, gaps: list[float]) -> None:
        counts = self._counts.setdefault(model, [0] * (len(self._buckets) + 1))
        for gap in gaps:
            counts[bisect_left(self._buckets, gap)] += 1
        self._sums[model] = self._sums.get(model, 0.0) + sum(gaps)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=["model_name"])
        edges = [*(repr(float(edge)) for edge in self._buckets), "+Inf"]
        for model, counts in self._counts.items():
            family.add_metric([model], list(zip(edges, accumulate(counts), strict=True)), self._sums[model])
        yield family
