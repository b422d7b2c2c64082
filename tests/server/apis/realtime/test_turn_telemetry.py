"""The waterfall of a turn: in the metrics, and as spans of the session's trace."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus

from antiphon.server.serving.serving import Serving
from antiphon.server.web.telemetry import tracing
from support.server.fake_voice import FakeVoice
from support.server.realtime_server import FakeRealtime, fake_realtime
from support.waiting import wait_until_async

pytestmark = pytest.mark.asyncio
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def realtime(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRealtime]:
    monkeypatch.setattr(tracing, "make_exporter", lambda endpoint: exporter)
    with fake_realtime(otlp_endpoint="http://127.0.0.1:4318") as made:
        yield made


def values(serving: Serving) -> dict[str, float]:
    """Samples without labels by name, others by name and the label's value."""
    families = text_string_to_metric_families(serving.metrics.text().decode())
    samples = [sample for family in families for sample in family.samples if "le" not in sample.labels]
    return {" ".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}


async def counted(serving: Serving, name: str) -> None:
    """Wait until a metric is 1."""
    await wait_until_async(lambda: values(serving).get(name) == 1, f"{name} to be 1", seen=lambda: values(serving))


async def test_the_stages_of_a_turn_are_metrics(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        await session.turn()
        done = await session.until("response.done")
        await counted(realtime.serving, "antiphon:realtime_responses_total completed")
        assert values(realtime.serving)["antiphon:realtime_sessions_open"] == 1
    found = values(realtime.serving)
    marks = json.loads(done["response"]["metadata"]["antiphon.waterfall"])
    stages = set(marks) - {"speech_ended"}
    assert {"turn_decided", "transcript_final", "first_token", "first_clause", "first_sound"} <= stages
    for stage in stages:
        assert found[f"antiphon:voice_turn_stage_seconds_count {stage}"] == 1
    assert found["antiphon:voice_to_voice_seconds_count"] == 1
    assert abs(1000 * found["antiphon:voice_to_voice_seconds_sum"] - marks["first_sound"]) <= 1


async def test_an_interrupted_response_counts_the_stages_it_reached(realtime: FakeRealtime) -> None:
    def hold(voice: FakeVoice) -> None:
        voice.go.clear()

    realtime.prepare = hold
    async with realtime.session() as session:
        await session.turn()
        await session.until("response.created")
        await session.send("response.cancel")
        await session.until("response.done")
        await counted(realtime.serving, "antiphon:realtime_responses_total cancelled")
    found = values(realtime.serving)
    assert found["antiphon:voice_turn_stage_seconds_count turn_decided"] == 1
    assert found["antiphon:voice_to_voice_seconds_count"] == 0
    assert "antiphon:voice_turn_stage_seconds_count first_sound" not in found


def arrived(realtime: FakeRealtime, exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    assert realtime.serving.tracing is not None
    realtime.serving.tracing.flush()
    return list(exporter.get_finished_spans())


async def test_a_turn_is_a_span_of_its_session(realtime: FakeRealtime, exporter: InMemorySpanExporter) -> None:
    async with realtime.session(additional_headers={"traceparent": PARENT}) as session:
        response = session.socket.response
        assert response is not None and response.headers["traceparent"].startswith(f"00-{TRACE}-")
        await session.turn()
        done = await session.until("response.done")
    named = lambda: {span.name: span for span in arrived(realtime, exporter)}  # noqa: E731
    await wait_until_async(lambda: "WEBSOCKET /v1/realtime" in named(), "the span of the session", seen=named)
    spans = named()
    root, turn = spans["WEBSOCKET /v1/realtime"], spans["turn"]
    assert root.parent is not None and f"{root.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert dict(root.attributes or {})["http.response.status_code"] == 101
    assert turn.parent is not None and turn.parent.span_id == root.context.span_id
    assert dict(turn.attributes or {})["antiphon.response_id"] == done["response"]["id"]
    marks = json.loads(done["response"]["metadata"]["antiphon.waterfall"])
    stages = {name: span for name, span in spans.items() if span.parent and span.parent.span_id == turn.context.span_id}
    assert set(stages) == set(marks) - {"speech_ended"}
    for name, span in stages.items():
        assert span.start_time is not None and span.end_time is not None and turn.start_time is not None
        assert abs((span.end_time - turn.start_time) / 1e6 - marks[name]) <= 1
    critical = dict(stages["first_sound"].attributes or {})
    assert critical["antiphon.is_critical"] is True and critical["antiphon.waited_for"] in marks
    assert "turn 1" not in "".join(span.to_json() for span in spans.values())  # what was said


async def test_a_refused_handshake_is_a_span(realtime: FakeRealtime, exporter: InMemorySpanExporter) -> None:
    with pytest.raises(InvalidStatus):
        async with realtime.session("?model=nope"):
            pass
    (span,) = await wait_until_async(lambda: arrived(realtime, exporter), "a span")
    assert dict(span.attributes or {})["http.response.status_code"] == 404
