"""Prometheus metrics, under vLLM's names where the meaning is the same, so that its dashboards work."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from antiphon.runtime.calls.events import Ended
from antiphon.server.web.telemetry.gap_histogram import GapHistogram
from antiphon.server.web.telemetry.sound_metrics import SoundMetrics
from antiphon.server.web.telemetry.voice_metrics import VoiceMetrics

PREFIX = "antiphon:"
LATENCIES = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320)
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sound = SoundMetrics(self.registry)
        self.voice = VoiceMetrics(self.registry)
        self._requests = self._counter("http_requests", "HTTP requests answered.", "route", "status")
        self._prompt = self._counter("prompt_tokens", "Tokens of prompts.", "model_name")
        self._cached = self._counter("prompt_tokens_cached", "Tokens of prompts found in the cache.", "model_name")
        self._output = self._counter("generation_tokens", "Tokens generated.", "model_name")
        self._ended = self._counter("request_success", "Generations ended, by reason.", "model_name", "finished_reason")
        self._first = self._histogram("time_to_first_token_seconds", "Seconds to the first token.", LATENCIES)
        self._each = self._histogram(
            "request_time_per_output_token_seconds", "Seconds a token after the first.", PER_TOKEN
        )
        self._queue = self._histogram("request_queue_time_seconds", "Seconds of waiting to be scheduled.", LATENCIES)
        self._total = self._histogram("e2e_request_latency_seconds", "Seconds from arrival to the end.", LATENCIES)
        self._prefill = self._histogram(
            "request_prefill_time_seconds", "Seconds from scheduling to a token.", LATENCIES
        )
        self._decode = self._histogram("request_decode_time_seconds", "Seconds from the first token on.", LATENCIES)
        self._inference = self._histogram("request_inference_time_seconds", "Seconds of prefill and decode.", LATENCIES)
        self._gaps = GapHistogram(PREFIX + "inter_token_latency_seconds", "Seconds between two tokens.", PER_TOKEN)
        self.registry.register(self._gaps)
        self._prompt_size = self._histogram("request_prompt_tokens", "Tokens of a request's prompt.", TOKENS)
        self._output_size = self._histogram("request_generation_tokens", "Tokens of a request's answer.", TOKENS)
        self._queries = self._counter("prefix_cache_queries", "Tokens looked for in the cache.", "model_name")
        self._hits = self._counter("prefix_cache_hits", "Tokens found in the cache.", "model_name")
        self._drafts = self._counter("spec_decode_num_drafts", "Drafts computed.", "model_name")
        self._drafted = self._counter("spec_decode_num_draft_tokens", "Tokens of drafts.", "model_name")
        self._accepted = self._counter(
            "spec_decode_num_accepted_tokens", "Tokens of drafts that became the answer's.", "model_name"
        )
        self._accepted_at = self._counter(
            "spec_decode_num_accepted_tokens_per_pos",
            "The same by their position in the draft, from 0 on.",
            "model_name",
            "position",
        )
        self._preemptions = self._counter("num_preemptions", "Preemptions of running requests.", "model_name")
        self._usage = self._gauge(
            "kv_cache_usage_perc", "Share of the cache that requests own; 1 is all.", "model_name"
        )
        self._running = self._gauge("num_requests_running", "Requests being computed.", "model_name")
        self._waiting = self._gauge("num_requests_waiting", "Requests waiting.", "model_name")
        self._blocks = self._gauge("kv_cache_blocks", "Blocks of a model's cache, by state.", "model_name", "state")
        self._lent = self._gauge(
            "kv_cache_lent_ratio", "Share of the cache's memory that models hold, cached prefixes included.", "device"
        )
        self._memory = self._gauge(
            "device_memory_bytes", "Memory of a device: in total, free, and of the KV cache.", "device", "kind"
        )
        self._resident = self._gauge("engine_resident_bytes", "Resident memory of the engine's process.")
        self._up = self._gauge("engine_up", "Whether the engine takes requests.")
        self._restarts = self._gauge("engine_restarts", "How often the engine's process was started again.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(PREFIX + name, text, ("model_name",), buckets=buckets, registry=self.registry)

    def answered(self, route: str, status: int) -> None:
        self._requests.labels(route, str(status)).inc()

    def inputs(self, model: str, tokens: int) -> None:
        """Count prompt tokens of embeddings, for which there is no cache."""
        self._prompt.labels(model).inc(tokens)

    def prompt(self, model: str, tokens: int, cached: int = 0) -> None:
        self._prompt.labels(model).inc(tokens)
        self._cached.labels(model).inc(cached)
        self._queries.labels(model).inc(tokens)
        self._hits.labels(model).inc(cached)
        self._prompt_size.labels(model).observe(tokens)

    def ended(self, model: str, ended: Ended) -> None:
        self._output.labels(model).inc(ended.completion_tokens)
        self._ended.labels(model, ended.finish_reason).inc()
        self._queue.labels(model).observe(ended.queue)
        self._total.labels(model).observe(ended.total)
        self._output_size.labels(model).observe(ended.completion_tokens)
        self._preemptions.labels(model).inc(ended.preemptions)
        if ended.drafted_tokens:
            self._draft(model, ended)
        self._inference.labels(model).observe(max(0.0, ended.total - ended.queue))
        if ended.completion_tokens:
            self._first.labels(model).observe(ended.time_to_first_token)
            self._prefill.labels(model).observe(max(0.0, ended.time_to_first_token - ended.queue))
            self._decode.labels(model).observe(max(0.0, ended.total - ended.time_to_first_token))
        if ended.completion_tokens > 1:
            self._each.labels(model).observe(ended.time_per_output_token)
            self._gaps.observe(model, ended.gaps)

    def _draft(self, model: str, ended: Ended) -> None:
        self._drafts.labels(model).inc(ended.drafted_at[0])
        self._drafted.labels(model).inc(ended.drafted_tokens)
        self._accepted.labels(model).inc(ended.accepted_tokens)
        for position, accepted in enumerate(ended.accepted_at):
            self._accepted_at.labels(model, str(position)).inc(accepted)

    def engine(self, is_up: bool, restarts: int, figures: dict[str, Any]) -> None:
        """Set the gauges from the engine's figures. Without figures, clear the gauges of its models."""
        self._up.set(is_up)
        self._restarts.set(restarts)
        self._running.clear()
        self._waiting.clear()
        self._blocks.clear()
        self._usage.clear()
        self._lent.clear()
        self._memory.clear()
        for name, values in figures.items():
            if name == "devices":
                self._devices(values)
            elif name == "process":
                self._resident.set(values["resident_bytes"])
            elif "running" in values:
                self._running.labels(name).set(values["running"])
                self._waiting.labels(name).set(values["waiting"])
                self._usage.labels(name).set(values["bytes_owned"] / max(1, values.get("arena_bytes", 0)))
                for state in ("free", "cached", "owned"):
                    self._blocks.labels(name, state).set(values[f"blocks_{state}"])

    def _devices(self, devices: dict[str, dict[str, int]]) -> None:
        for name, values in devices.items():
            self._lent.labels(name).set(values["lent_bytes"] / max(1, values["total_bytes"]))
            kinds = {"total": "memory_bytes", "free": "free_bytes", "kv_cache": "total_bytes"}
            for kind, key in kinds.items():
                self._memory.labels(name, kind).set(values[key])

    def text(self) -> bytes:
        return generate_latest(self.registry)
