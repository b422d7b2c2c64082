"""`/metrics` in Prometheus' own reading, and the dashboard that is built on it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import openai
from prometheus_client.parser import text_string_to_metric_families

from antiphon.runtime.calls.events import Ended
from antiphon.server.web.telemetry.metrics import Metrics
from support.server.http_server import RunningServer

DASHBOARD = Path(__file__).parents[4] / "deploy" / "grafana" / "antiphon.json"
SERIES = re.compile(r"antiphon:[a-z0-9_]+")


def samples(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def of_model(text: str, name: str, model: str = "tiny-chat") -> float:
    return samples(text)[f"antiphon:{name}"][(("model_name", model),)]


def test_what_is_counted(server: RunningServer, client: openai.OpenAI) -> None:
    before = server.metrics()
    client.completions.create(model="tiny-chat", prompt="hello", max_tokens=9, n=2, extra_body={"ignore_eos": True})
    after = server.metrics()

    def grown(name: str) -> float:
        known = samples(before).get(f"antiphon:{name}", {}).get((("model_name", "tiny-chat"),), 0.0)
        return of_model(after, name) - known

    assert grown("generation_tokens_total") == 18
    assert grown("request_generation_tokens_count") == 2
    assert grown("inter_token_latency_seconds_count") == 16
    for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time", "request_prefill_time"):
        assert grown(f"{name}_seconds_count") == 2, name
    assert grown("request_time_per_output_token_seconds_count") == 2
    assert grown("prefix_cache_queries_total") == grown("prompt_tokens_total") == grown("request_prompt_tokens_sum")
    spent = grown("request_prefill_time_seconds_sum") + grown("request_decode_time_seconds_sum")
    assert abs(spent - grown("request_inference_time_seconds_sum")) < 1e-3
    assert 0 < grown("inter_token_latency_seconds_sum") <= grown("request_decode_time_seconds_sum") + 1e-6
    assert of_model(after, "kv_cache_usage_perc") == 0
    assert of_model(after, "num_preemptions_total") >= 0


def test_gaps_fall_into_prometheus_buckets() -> None:
    metrics = Metrics()
    metrics.ended("m", Ended("a/0", "stop", 1, 4, 0, gaps=[0.001, 0.0011, 99.0]))
    buckets = samples(metrics.text().decode())["antiphon:inter_token_latency_seconds_bucket"]
    by_edge = {dict(labels)["le"]: value for labels, value in buckets.items()}
    assert (by_edge["0.001"], by_edge["0.0025"], by_edge["2.5"], by_edge["+Inf"]) == (1, 2, 2, 3)


def test_drafts_by_position() -> None:
    metrics = Metrics()
    metrics.ended("m", Ended("a/0", "stop", 1, 4, 0))
    assert "spec_decode_num_draft_tokens_total{" not in metrics.text().decode()
    drafts = dict(drafted_tokens=5, accepted_tokens=3, drafted_at=[3, 2], accepted_at=[2, 1])
    for _ in range(2):
        metrics.ended("m", Ended("a/0", "stop", 1, 4, 0, **drafts))
    text = metrics.text().decode()
    counted = {name: of_model(text, f"spec_decode_num_{name}_total", "m") for name in ("drafts", "draft_tokens")}
    assert counted == {"drafts": 6, "draft_tokens": 10}
    assert of_model(text, "spec_decode_num_accepted_tokens_total", "m") == 6
    by_position = samples(text)["antiphon:spec_decode_num_accepted_tokens_per_pos_total"]
    assert {dict(labels)["position"]: value for labels, value in by_position.items()} == {"0": 4, "1": 2}


def test_memory_by_device() -> None:
    metrics = Metrics()
    cpu = {"total_bytes": 100, "lent_bytes": 25, "memory_bytes": 1000, "free_bytes": 1000}
    gpu = {"total_bytes": 400, "lent_bytes": 300, "memory_bytes": 900, "free_bytes": 50}
    model = {"running": 1, "waiting": 0, "blocks_free": 1, "blocks_cached": 0, "blocks_owned": 2}
    figures = {"a": {**model, "bytes_owned": 100, "arena_bytes": 400}, "devices": {"cpu": cpu, "cuda:0": gpu}}
    metrics.engine(True, 0, figures)
    found = samples(metrics.text().decode())
    assert found["antiphon:kv_cache_lent_ratio"] == {(("device", "cpu"),): 0.25, (("device", "cuda:0"),): 0.75}
    assert found["antiphon:device_memory_bytes"][("device", "cuda:0"), ("kind", "free")] == 50
    assert of_model(metrics.text().decode(), "kv_cache_usage_perc", "a") == 0.25
    metrics.engine(False, 0, {})
    assert "antiphon:device_memory_bytes" not in samples(metrics.text().decode())


def test_the_dashboard_asks_for_what_there_is(server: RunningServer, client: openai.OpenAI) -> None:
    client.completions.create(model="tiny-chat", prompt="hello", max_tokens=2)
    there = set(samples(server.metrics()))
    page = json.loads(DASHBOARD.read_text())
    asked: set[str] = set()
    for panel in page["panels"]:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            names = SERIES.findall(target["expr"])
            assert names, target["expr"]
            asked.update(names)
    asked.update(SERIES.findall(json.dumps(page["templating"])))
    assert asked - there == set()
    assert len(asked) > 20
    places = [panel["gridPos"] for panel in page["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
