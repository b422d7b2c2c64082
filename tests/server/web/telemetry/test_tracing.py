"""Traces: a span a request with its phases inside, as part of the caller's trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from antiphon.errors import InvalidRequestError, MissingDependencyError
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.telemetry import tracing
from support.models.tiny_model import vocabulary
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MAKE_EXPORTER = tracing.make_exporter
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def traced(chat_folder: Path) -> Iterator[tuple[RunningServer, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "make_exporter", lambda endpoint: exporter)
        config = ServerConfig(
            models=(ModelSpec.of(str(chat_folder)),), offline=True, otlp_endpoint="http://127.0.0.1:4318"
        )
        with running_server(config, {"kv_bytes": 16 << 20}) as running:
            yield running, exporter


def spans(traced: tuple[RunningServer, InMemorySpanExporter], body: dict[str, Any]) -> tuple[httpx.Response, list[Any]]:
    server, exporter = traced
    assert server.serving.tracing is not None
    server.serving.tracing.flush()
    exporter.clear()
    answer = httpx.post(server.url + "/v1/chat/completions", json=body, headers={"traceparent": PARENT}, timeout=60)

    def arrived() -> list[ReadableSpan]:
        server.serving.tracing.flush()
        return list(exporter.get_finished_spans())

    # A request's own span ends after the last byte of its answer has left.
    wait_until(lambda: any(span.kind is SpanKind.SERVER for span in arrived()), "the request's span", seen=arrived)
    return answer, arrived()


BODY = {"model": "tiny-chat", "messages": [{"role": "user", "content": "secret words"}], "max_tokens": 5}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_a_request_and_its_phases(traced: Any, stream: bool, n: int) -> None:
    body = {**BODY, "stream": stream, "n": n, "ignore_eos": True}
    answer, found = spans(traced, body)
    root: ReadableSpan
    (root,) = (span for span in found if span.name == "POST /v1/chat/completions")
    assert root.parent is not None and f"{root.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert answer.headers["traceparent"] == f"00-{TRACE}-{root.context.span_id:016x}-01"
    attributes = dict(root.attributes or {})
    assert attributes["http.response.status_code"] == 200
    assert attributes["gen_ai.request.model"] == "tiny-chat"
    assert attributes["gen_ai.usage.output_tokens"] == 5 * n
    assert attributes["antiphon.request_id"] == answer.headers["x-request-id"]
    phases = [span for span in found if span is not root]
    assert sorted(span.name for span in phases) == sorted(["queue", "prefill", "decode"] * n)
    for span in phases:
        assert span.parent is not None and span.parent.span_id == root.context.span_id
        assert f"{span.context.trace_id:032x}" == TRACE
        assert root.start_time - 50e6 <= span.start_time <= span.end_time <= root.end_time + 50e6
    queue, prefill, decode = phases[:3]
    assert queue.end_time == prefill.start_time and prefill.end_time == decode.start_time
    assert "secret" not in "".join(span.to_json() for span in found)


def test_drafted_tokens_are_told(traced: Any) -> None:
    body = {**BODY, "ignore_eos": True, "temperature": 0, "allowed_token_ids": [vocabulary().index("a")]}
    answer, found = spans(traced, body)
    assert not [name for span in found for name in span.attributes or () if "drafted" in name]
    # The first draft is computed before the cost of one is known.
    prediction = {"type": "content", "content": answer.json()["choices"][0]["message"]["content"]}
    answer, found = spans(traced, {**body, "prediction": prediction})
    accepted, rejected = answer.json()["usage"]["completion_tokens_details"].values()
    assert accepted > 0
    (root,) = (span for span in found if span.name == "POST /v1/chat/completions")
    (decode,) = (span for span in found if span.name == "decode")
    for span in (root, decode):
        assert span.attributes["antiphon.usage.drafted_tokens"] == accepted + rejected
        assert span.attributes["antiphon.usage.accepted_tokens"] == accepted


def test_errors_are_told(traced: Any) -> None:
    answer, found = spans(traced, {**BODY, "model": "nobody"})
    assert answer.status_code == 404
    (root,) = found
    assert root.attributes["http.response.status_code"] == 404
    assert root.attributes["error.type"] == "model_not_found"


def test_probes_are_not_traced(traced: Any) -> None:
    server, exporter = traced
    server.serving.tracing.flush()
    exporter.clear()
    assert "traceparent" not in httpx.get(server.url + "/livez").headers
    server.serving.tracing.flush()
    assert not exporter.get_finished_spans()


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "make_exporter", MAKE_EXPORTER)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingDependencyError, match="`pip install opentelemetry-sdk opentelemetry-exporter"):
        tracing.Tracing("http://127.0.0.1:4318")


def test_an_endpoint_that_is_none() -> None:
    with pytest.raises(InvalidRequestError, match="must begin with http"):
        tracing.Tracing("localhost:4318")
