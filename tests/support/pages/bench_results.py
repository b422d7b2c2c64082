"""Results of `bench serve` without a server: records with known times, summarized as by the command."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.generator import LoadResult
from antiphon.bench.load.lengths import Lengths
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.openai_stream import Endpoint
from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.load.workload import Workload
from antiphon.bench.series import run_series
from antiphon.bench.summary import summarize

DRAFTS = ("drafted_tokens", "accepted_tokens")


def records(count: int, tokens: int = 8, seed: int = 0, slow: float = 1.0) -> list[MeasuredRequest]:
    """Build `count` records of `tokens` tokens each, with a long tail of latencies; `slow` multiplies all times."""
    source = random.Random(seed)
    made = []
    for number in range(count):
        start = 50.0 + number * 0.1
        moment = start + slow * source.lognormvariate(-2, 0.7)
        times = [moment]
        for _ in range(tokens - 1):
            moment += slow * source.lognormvariate(-4, 0.9)
            times.append(moment)
        record = MeasuredRequest(start, start, moment + 0.001, completion_tokens=tokens, prompt_tokens=20)
        record.arrival_times = times
        record.arrival_chunks, record.arrival_characters = [1] * tokens, [4] * tokens
        made.append(record)
    return made


def result(
    of: list[MeasuredRequest], arrivals: Arrivals | None = None, model: str = "a-model", url: str = "http://host:1"
) -> dict[str, Any]:
    """Return the result of these records as decoded from the command's JSON file."""
    load = arrivals or Arrivals(concurrency=4)
    workload = Workload(Endpoint.CHAT, load, max(1, len(of)), Lengths("fixed", 20), Lengths("fixed", 8))
    seconds = max(record.ended for record in of) - min(record.started for record in of)
    content = {
        "format": 1,
        "tool": "antiphon 9",
        "machine": "Linux x86_64",
        "environment": {"processor": "a processor", "cores": 2},
        "date": "2026-11-17T08:55:22+00:00",
        "target": {"base_url": url, "model": model, "counts_tokens": True, "refused_ignore_eos": False},
        "workload": workload.description(None),
        "load": load.load(),
        "figures": summarize(LoadResult(of, seconds, 0.01), Objectives.parse("ttft:300,tpot:60")),
        "series": msgspec.to_builtins(run_series(of)),
    }
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(content))
    return decoded


def as_of_an_earlier_version(content: dict[str, Any]) -> dict[str, Any]:
    """Return the result without fields added since the format's first release."""
    old = {name: value for name, value in content.items() if name not in ("series", "load", "environment")}
    latencies = {
        name: None if row is None else {part: value for part, value in row.items() if part != "p95"}
        for name, row in content["figures"]["latency_ms"].items()
    }
    figures = {name: value for name, value in content["figures"].items() if name not in DRAFTS}
    return old | {"figures": figures | {"latency_ms": latencies}}
