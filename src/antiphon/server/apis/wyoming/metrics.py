"""Prometheus metrics of Wyoming connections and requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

PREFIX = "antiphon:wyoming_"


class WyomingMetrics:
    """Counts by status: a request's `status` is `ok`, the code of its error, or `disconnected`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connections = Gauge(PREFIX + "connections", "Open Wyoming connections.", registry=registry)
        self._requests = Counter(
            PREFIX + "requests", "Wyoming requests ended, by status.", ("request", "status"), registry=registry
        )
        self._rejected = Counter(
            PREFIX + "rejected_connections", "Wyoming connections ended by an error of their own.", ("code",),
            registry=registry,
        )  # fmt: skip

    def ended(self, request: str, status: str) -> None:
        self._requests.labels(request, status).inc()

    def rejected(self, code: str) -> None:
        self._rejected.labels(code).inc()
