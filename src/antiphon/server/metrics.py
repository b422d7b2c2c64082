"""Prometheus metrics. Where the meaning is the same, the names are those that dashboards for vLLM know."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from antiphon.runtime.messages import Ended

PREFIX = "antiphon:"
LATENCIES = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320)
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)


class Metrics:
    """One set of figures for one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("http_requests", "HTTP requests answered.", "route", "status")
        self._prompt = self._counter("prompt_tokens", "Tokens of prompts.", "model_name")
        self._cached = self._counter("prompt_tokens_cached", "Tokens of prompts found in the cache.", "model_name")
        self._output = self._counter("generation_tokens", "Tokens generated.", "model_name")
        self._ended = self._counter("request_success", "Generations ended, by reason.", "model_name", "finished_reason")
        self._first = self._seconds("time_to_first_token_seconds", "Seconds to the first token.", LATENCIES)
        self._each = self._seconds(
            "request_time_per_output_token_seconds", "Seconds a token after the first.", PER_TOKEN
        )
        self._queue = self._seconds("request_queue_time_seconds", "Seconds of waiting to be scheduled.", LATENCIES)
        self._total = self._seconds("e2e_request_latency_seconds", "Seconds from arrival to the end.", LATENCIES)
        self._running = self._gauge("num_requests_running", "Requests being computed.", "model_name")
        self._waiting = self._gauge("num_requests_waiting", "Requests waiting.", "model_name")
        self._lent = self._gauge(
            "kv_cache_lent_ratio", "Share of the cache's memory that models hold, cached prefixes included."
        )
        self._resident = self._gauge("engine_resident_bytes", "Resident memory of the engine's process.")
        self._up = self._gauge("engine_up", "Whether the engine takes requests.")
        self._restarts = self._gauge("engine_restarts", "How often the engine's process was started again.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, text, labels, registry=self.registry)

    def _seconds(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(PREFIX + name, text, ("model_name",), buckets=buckets, registry=self.registry)

    def answered(self, route: str, status: int) -> None:
        self._requests.labels(route, str(status)).inc()

    def prompt(self, model: str, tokens: int, cached: int = 0) -> None:
        self._prompt.labels(model).inc(tokens)
        self._cached.labels(model).inc(cached)

    def ended(self, model: str, ended: Ended) -> None:
        self._output.labels(model).inc(ended.completion_tokens)
        self._ended.labels(model, ended.finish_reason).inc()
        self._queue.labels(model).observe(ended.queue)
        self._total.labels(model).observe(ended.total)
        if ended.completion_tokens:
            self._first.labels(model).observe(ended.time_to_first_token)
        if ended.completion_tokens > 1:
            self._each.labels(model).observe(ended.time_per_output_token)

    def engine(self, is_up: bool, restarts: int, figures: dict[str, Any]) -> None:
        """Take in what the engine tells of itself; without figures the gauges of its models are cleared."""
        self._up.set(is_up)
        self._restarts.set(restarts)
        self._running.clear()
        self._waiting.clear()
        for name, values in figures.items():
            if name == "arena":
                self._lent.set(values["lent_bytes"] / max(1, values["total_bytes"]))
            elif name == "process":
                self._resident.set(values["resident_bytes"])
            elif "running" in values:
                self._running.labels(name).set(values["running"])
                self._waiting.labels(name).set(values["waiting"])

    def text(self) -> bytes:
        return generate_latest(self.registry)
