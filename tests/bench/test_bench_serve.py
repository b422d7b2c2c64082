"""The load tool against a server whose delays and faults are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.lengths import Lengths
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.openai_stream import Endpoint
from antiphon.bench.load.words import COMMON
from antiphon.bench.load.workload import Workload
from antiphon.bench.serve_bench import BenchTarget, bench_serve
from antiphon.bench.table import result_table
from antiphon.errors import AntiphonError, InvalidRequestError
from support.server.fake_openai import Behaviour, FakeServer, fake_server

WORKLOAD = Workload(
    endpoint=Endpoint.CHAT,
    arrivals=Arrivals(concurrency=4),
    num_requests=8,
    input_lengths=Lengths("fixed", 12),
    output_lengths=Lengths("fixed", 5),
    num_warm_up=1,
)
#: A timer may be late by this much on a busy machine.
LATE_MS = 150.0


def bench(server: FakeServer, workload: Workload = WORKLOAD, slo: str | None = None, **options: Any) -> dict[str, Any]:
    objectives = None if slo is None else Objectives.parse(slo)
    return bench_serve(BenchTarget(server.url, "fake", **options), workload, objectives)


def undisturbed(run: Callable[[], dict[str, Any]], is_right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """A result whose times are right: a busy machine spoils one run or another, a wrong measure spoils all."""
    figures: dict[str, Any] = {}
    for _ in range(10):
        result = run()
        figures = result["figures"]
        if is_right(figures):
            return result
    raise AssertionError(figures)


@pytest.mark.parametrize("endpoint", list(Endpoint))
def test_known_delays(endpoint: Endpoint) -> None:
    def is_right(figures: dict[str, Any]) -> bool:
        latency = figures["latency_ms"]
        return (
            100 <= latency["ttft"]["p50"] < 100 + LATE_MS
            and 19.9 <= latency["tpot"]["p50"] < 20 + LATE_MS
            and 180 <= latency["e2e"]["mean"] < 180 + 3 * LATE_MS
            and 0.36 <= figures["seconds"] < 2  # two rounds of four
        )

    with fake_server(Behaviour(first_seconds=0.1, gap_seconds=0.02, cached_tokens=3)) as server:
        result = undisturbed(lambda: bench(server, replace(WORKLOAD, endpoint=endpoint), slo="ttft:50"), is_right)
    figures = result["figures"]
    assert (figures["completed"], figures["failed"]) == (8, 0)
    assert (figures["output_tokens"], figures["chunks"], figures["cached_tokens"]) == (40, 40, 24)
    assert figures["latency_ms"]["itl"]["count"] == 32
    assert figures["goodput"]["share"] == 0
    assert {path for path in server.paths if "tokenize" not in path} == {endpoint.path}
    table = result_table(result)
    assert "time to first token" in table and "█" in table and "goodput" in table


def test_chunks_of_many_tokens_do_not_distort_the_gaps() -> None:
    def is_right(figures: dict[str, Any]) -> bool:
        gap = figures["latency_ms"]["chunk_gap"]["p50"]
        per_token = figures["latency_ms"]["itl"]["p50"] == pytest.approx(gap / 4, rel=0.2)
        return bool(gap >= 39 and per_token and figures["latency_ms"]["tpot"]["p50"] == pytest.approx(10, abs=5))

    workload = replace(WORKLOAD, output_lengths=Lengths("fixed", 20))
    with fake_server(Behaviour(gap_seconds=0.04, tokens_per_chunk=4)) as server:
        figures = undisturbed(lambda: bench(server, workload), is_right)["figures"]
    assert (figures["output_tokens"], figures["chunks"]) == (160, 40)


@pytest.mark.long("one request runs into its timeout of three seconds")
def test_faults_are_counted_by_kind() -> None:
    faults = {3: "http_429", 5: "drop", 6: "stream_error", 7: "garbage", 8: "silent"}
    with fake_server(Behaviour(faults=faults)) as server:
        result = bench(server, timeout=3.0)
    figures = result["figures"]
    assert (figures["completed"], figures["failed"]) == (3, 5)
    kinds = {kind: error["count"] for kind, error in figures["errors"].items()}
    assert kinds == dict.fromkeys(["http_429", "disconnected", "stream_error", "invalid_response", "timeout"], 1)
    assert figures["errors"]["http_429"]["example"] == "too many"
    assert figures["errors"]["stream_error"]["example"] == "the engine died"
    assert figures["output_tokens"] == 15
    assert "error timeout: 1 ×" in result_table(result)


def test_what_is_asked_is_the_same_for_the_same_seed() -> None:
    workload = replace(WORKLOAD, input_lengths=Lengths("uniform", 3, 30), output_lengths=Lengths("lognormal", 4, 0.5))
    asked = []
    for seed in (0, 0, 1):
        with fake_server() as server:
            bench(server, replace(workload, seed=seed, arrivals=Arrivals(concurrency=1)))
        asked.append([(body["messages"], body["max_tokens"]) for body in server.bodies])
    assert asked[0] == asked[1] != asked[2]
    assert len({messages[0]["content"] for messages, _ in asked[0]}) == len(asked[0])


@pytest.mark.parametrize("tokenize", ["prompt", "content", None])
def test_prompts_have_the_tokens_that_were_asked_for(tokenize: str | None) -> None:
    """Where the server counts, exactly; elsewhere a word is taken for a token."""
    with fake_server(Behaviour(tokenize=tokenize)) as server:
        result = bench(server, replace(WORKLOAD, input_lengths=Lengths("fixed", 40), shared_prefix=10))
    assert result["target"]["counts_tokens"] == (tokenize is not None)
    prompts = [body["messages"][0]["content"].split() for body in server.bodies[1:]]
    for words in prompts:
        tokens = len(words) + sum(len(word) > 6 for word in words) if tokenize else len(words)
        assert tokens == 50
    assert len({tuple(words[:8]) for words in prompts}) == 1
    assert len({tuple(words) for words in prompts}) == len(prompts)
    assert set(prompts[0]) <= set(COMMON.split())


def test_a_server_without_ignore_eos_or_usage() -> None:
    with fake_server(Behaviour(refuses_ignore_eos=True, tells_usage=False)) as server:
        result = bench(server)
    assert result["figures"]["completed"] == 8
    assert result["figures"]["tokens_counted_by"] == "chunks"
    assert result["workload"]["ignore_eos"] is False
    assert [("ignore_eos" in body) for body in server.bodies] == [True] + [False] * 10
    assert "rejects ignore_eos" in result_table(result) and "no usage" in result_table(result)


def test_connections_are_used_again_and_replaced_when_closed() -> None:
    with fake_server() as server:
        bench(server)
        assert server.connections <= 9
    with fake_server(Behaviour(closes=True)) as server:
        assert bench(server)["figures"]["failed"] == 0
        assert server.connections >= 10


def test_a_request_rate() -> None:
    workload = replace(WORKLOAD, arrivals=Arrivals(request_rate=40.0), num_requests=20)
    due = workload.arrivals.times(20, 0)[-1]

    def is_right(figures: dict[str, Any]) -> bool:
        is_late = figures["tool"]["late_ms_p99"] >= LATE_MS
        return bool(due + 0.2 <= figures["seconds"] < due + 0.2 + 1 and not is_late)

    with fake_server(Behaviour(first_seconds=0.2)) as server:
        undisturbed(lambda: bench(server, workload), is_right)


def test_a_server_that_cannot_answer_is_an_error_at_once() -> None:
    with fake_server(Behaviour(faults={0: "http_429"})) as server, pytest.raises(AntiphonError, match=r"429.*too many"):
        bench(server)
    with pytest.raises(AntiphonError, match="cannot connect"):
        bench(server)
    for url in ("localhost:8000", "ftp://a", "http://", "http://a:x"):
        with pytest.raises(InvalidRequestError, match="base URL"):
            bench_serve(BenchTarget(url, "fake"), WORKLOAD)


def conversation(number: int, *more: dict[str, str]) -> dict[str, Any]:
    question = {"from": "human", "value": f"question {number}"}
    return {"conversations": [question, {"from": "gpt", "value": "one two three"}, *more]}


@pytest.mark.parametrize("as_lines", [True, False])
def test_questions_from_a_file(tmp_path: Path, as_lines: bool) -> None:
    rows = [conversation(number) for number in range(12)]
    rows += [{"conversations": []}, {"conversations": [{"from": "gpt", "value": "no question"}]}, {"other": 1}]
    path = tmp_path / "sharegpt.json"
    path.write_text("\n".join(json.dumps(row) for row in rows) if as_lines else json.dumps(rows))
    workload = replace(WORKLOAD, input_lengths=None, output_lengths=None, dataset_file=path)
    with fake_server() as server:
        result = bench(server, workload)
        asked = {(body["messages"][0]["content"], body["max_tokens"]) for body in server.bodies[1:]}
        assert len(asked) == 9
        assert asked <= {(f"question {number}", 3) for number in range(12)}
        assert result["workload"]["dataset_sha256"]
        with pytest.raises(InvalidRequestError, match=r"has 12 usable conversations; 100 requests and 1 to warm up"):
            bench(server, replace(workload, num_requests=100))
        path.write_text("[]")
        with pytest.raises(InvalidRequestError, match="no conversation"):
            bench(server, workload)
        path.write_text("[")
        with pytest.raises(InvalidRequestError, match="neither JSON nor JSON lines"):
            bench(server, workload)
