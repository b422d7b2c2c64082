"""`antiphon bench serve`: probe a server, warm it up, put load on it, and report the measurements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.generator import LoadTarget, put_load
from antiphon.bench.load.http_stream import HttpClient, TransferError
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.openai_stream import Job
from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.load.words import Counter, find_counter
from antiphon.bench.load.workload import Workload
from antiphon.bench.result_files import origin
from antiphon.bench.series import run_series
from antiphon.bench.summary import summarize
from antiphon.errors import AntiphonError


@dataclass(frozen=True)
class BenchTarget:
    base_url: str
    model: str
    api_key: str | None = None
    timeout: float = 600.0


def bench_serve(
    where: BenchTarget,
    workload: Workload,
    objectives: Objectives | None = None,
    on_done: Callable[[MeasuredRequest], None] | None = None,
) -> dict[str, Any]:
    """Run the benchmark in a new event loop; raise AntiphonError if the server cannot answer at all."""
    result: dict[str, Any] = run_loop(_bench(where, workload, objectives, on_done))
    return result


def run_loop(main: Coroutine[Any, Any, Any]) -> Any:
    try:
        import uvloop
    except ImportError:  # uvloop is not available for every platform
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def _bench(
    where: BenchTarget,
    workload: Workload,
    objectives: Objectives | None,
    on_done: Callable[[MeasuredRequest], None] | None,
) -> dict[str, Any]:
    dataset = workload.read_dataset()
    client = HttpClient(where.base_url, where.api_key, where.timeout)
    target = LoadTarget(client, workload.endpoint, where.model)
    try:
        refuses_ignore_eos = await _probe(target, workload)
        asked = replace(workload, ignore_eos=False) if refuses_ignore_eos else workload
        counter = await _counter(target)
        warm_up, jobs = await asked.jobs(counter, dataset)
        if warm_up:
            concurrency = workload.arrivals.concurrency or 1
            await put_load(target, warm_up, Arrivals(concurrency=concurrency))
        result = await put_load(target, jobs, workload.arrivals, workload.seed, on_done)
    finally:
        client.close()
    return {
        **origin(),
        "target": {
            "base_url": without_password(where.base_url),
            "model": where.model,
            "counts_tokens": counter is not None,
            "refused_ignore_eos": refuses_ignore_eos,
        },
        "workload": asked.description(dataset),
        "load": workload.arrivals.load(),
        "figures": summarize(result, objectives),
        "series": msgspec.to_builtins(run_series(result.records)),
    }


def without_password(url: str) -> str:
    """Return the URL without user name and password, since results are shared."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


async def _probe(target: LoadTarget, workload: Workload) -> bool:
    """Send a short request, to fail early with the server's message.

    Return True if it works only without `ignore_eos`.
    """
    fields: dict[str, Any] = {"temperature": workload.temperature}
    job = Job("Hello", 1, fields | ({"ignore_eos": True} if workload.ignore_eos else {}))
    record = await target.perform(job)
    if record.error is None:
        return False
    if workload.ignore_eos and record.error in ("http_400", "http_422"):
        without = await target.perform(replace(job, fields=fields))
        if without.error is None:
            return True
    raise AntiphonError(f"{target.client.name} does not answer ({record.error}): {record.message}")


async def _counter(target: LoadTarget) -> Counter | None:
    try:
        return await find_counter(target.client, target.model)
    except TransferError:
        return None
