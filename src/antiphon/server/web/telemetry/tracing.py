"""OpenTelemetry traces: a span per request with queue, prefill and decode of every answer, and a span per turn.

The packages are an extra (`otel`) and are imported only when an endpoint is given.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from antiphon import __version__
from antiphon.dependencies import import_dependency
from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.events import Ended
from antiphon.runtime.voice.events import ResponseState

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


def make_exporter(endpoint: str) -> SpanExporter:
    """Build an exporter that sends spans to a collector by OTLP over HTTP."""
    module = import_dependency("opentelemetry.exporter.otlp.proto.http.trace_exporter", "sending traces", "otel")
    exporter: SpanExporter = module.OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    return exporter


class Tracing:
    """Sender of spans to one endpoint, such as `http://localhost:4318`, in batches from a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise InvalidRequestError(f"the OTLP endpoint is {endpoint!r}; it must begin with http:// or https://")
        exporter = make_exporter(endpoint)

        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": "antiphon", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self._provider.get_tracer("antiphon", __version__)

    def generation(self, model: str, ended: Ended) -> None:
        """Add spans for the phases of a generation that has just ended to the span of its request."""
        end = time.time_ns()
        start = end - _nanoseconds(ended.total)
        scheduled = start + _nanoseconds(ended.queue)
        first = start + _nanoseconds(ended.time_to_first_token) if ended.completion_tokens else end
        attributes: dict[str, Any] = {"gen_ai.request.model": model}
        finished = {**attributes, "gen_ai.response.finish_reasons": [ended.finish_reason]}
        prefilled = {**attributes, "gen_ai.usage.input_tokens": ended.prompt_tokens}
        decoded = {**finished, "gen_ai.usage.output_tokens": ended.completion_tokens}
        if ended.drafted_tokens:
            decoded["antiphon.usage.drafted_tokens"] = ended.drafted_tokens
            decoded["antiphon.usage.accepted_tokens"] = ended.accepted_tokens
        phases = (
            ("queue", start, scheduled, attributes),
            ("prefill", scheduled, first, {**prefilled, "antiphon.usage.cached_tokens": ended.cached_tokens}),
            ("decode", first, end, {**decoded, "antiphon.preemptions": ended.preemptions}),
        )
        for name, begin, stop, given in phases:
            span = self.tracer.start_span(name, start_time=begin, attributes=given)
            span.end(end_time=max(begin, stop))

    def turn(self, response: ResponseState) -> None:
        """Add a span for a turn that has just been answered, with its stages, to the span of its session.

        Stages on the critical path, where any delay delays the first sound, are marked `antiphon.is_critical`.
        """
        waterfall = response.waterfall
        if waterfall.start is None:
            return

        from opentelemetry.trace import set_span_in_context

        offset = time.time_ns() - time.monotonic_ns()

        def at(seconds: float) -> int:
            return offset + _nanoseconds(seconds)

        given = {"antiphon.response_id": response.id, "antiphon.response_status": str(response.status)}
        turn = self.tracer.start_span("turn", start_time=at(waterfall.start), attributes=given)
        inside = set_span_in_context(turn)
        critical = {stage.name for stage in waterfall.critical_path()}
        for stage in waterfall.stages():
            waited: dict[str, Any] = {
                "antiphon.waited_for": stage.waited_for,
                "antiphon.is_critical": stage.name in critical,
            }
            span = self.tracer.start_span(stage.name, inside, start_time=at(stage.start), attributes=waited)
            span.end(end_time=at(stage.end))
        turn.end()

    def flush(self) -> None:
        self._provider.force_flush()

    def close(self) -> None:
        """Send the remaining spans. Blocks."""
        self._provider.shutdown()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
