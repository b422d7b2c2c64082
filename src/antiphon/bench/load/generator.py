"""Load on a server: jobs sent when others end, or when they are due."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.http_stream import HttpClient
from antiphon.bench.load.openai_stream import Endpoint, Job, perform
from antiphon.bench.load.records import MeasuredRequest


@dataclass(frozen=True)
class LoadResult:
    """Records in the order of the jobs. `cpu_seconds` is this process's processor time during the run."""

    records: list[MeasuredRequest]
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class LoadTarget:
    client: HttpClient
    endpoint: Endpoint
    model: str

    async def perform(self, job: Job, due: float | None = None) -> MeasuredRequest:
        return await perform(self.client, self.endpoint, self.model, job, due)


async def put_load(
    target: LoadTarget,
    jobs: Sequence[Job],
    arrivals: Arrivals,
    seed: int = 0,
    on_done: Callable[[MeasuredRequest], None] | None = None,
) -> LoadResult:
    """Run all jobs to their ends; return their records."""
    records: list[MeasuredRequest | None] = [None] * len(jobs)

    async def one(number: int, due: float | None = None) -> None:
        record = await target.perform(jobs[number], due)
        records[number] = record
        if on_done is not None:
            on_done(record)

    cpu, started = _cpu_seconds(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        if arrivals.concurrency is not None:
            numbers = iter(range(len(jobs)))

            async def worker() -> None:
                for number in numbers:
                    await one(number)

            for _ in range(min(arrivals.concurrency, len(jobs))):
                group.create_task(worker())
        else:
            for number, after in enumerate(arrivals.times(len(jobs), seed)):
                due = started + after
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(one(number, due))
    seconds = time.perf_counter() - started
    return LoadResult([record for record in records if record is not None], seconds, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
