"""Measure the cost of `/admin/events`: processor time per decode step of the engine and the server, on and off.

    python benchmarks/event_stream.py [--model smollm2-135m] [--streams 32] [--output 40] [--rounds 8] [--listeners 1]

`antiphon serve` runs in its own processes. In each round, 32 streams decode together twice, with the same prompts: once
while `/admin/events` is read and once while it is not; the order alternates between rounds. A round gives the processor
time per step of each process (of all its threads, by the scheduler's clock in nanoseconds) and of the reporting thread
alone, and the median gap between two tokens. Printed are medians over the rounds, and the median of the differences
within a round.

A difference of a few hundred microseconds drowns in the noise of the model's own time. So the cost of a report is also
measured by itself: with 32 decoding requests of a model that computes nothing, the processor time of the sample, taken
on the engine's thread, and of the report, made from it on another thread.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.generator import LoadTarget, put_load
from antiphon.bench.load.http_stream import HttpClient
from antiphon.bench.load.openai_stream import Endpoint, Job
from antiphon.bench.serve_bench import run_loop
from antiphon.runtime.activity.report import ActivityReport
from antiphon.runtime.activity.reporter import encode
from antiphon.runtime.activity.sample import ActivitySampler
from antiphon.server.serving.setup.run_file import local_servers
from engine_overhead import free_core
from support.programs.server_process import ServerProcess, antiphon_server

LOWEST_TOKEN, HIGHEST_TOKEN = 100, 20_000
FIGURES = (
    "engine process, µs a step",
    "  of it the reporting thread",
    "server process, µs a step",
    "gap between tokens, ms",
)


def cpu_nanoseconds(pid: int) -> dict[str, int]:
    """Return processor nanoseconds by thread. Ended threads are missing, so none may end during a measurement."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}


class Reader:
    """Reader that counts the bytes of events in a thread; its own processor time is not part of the server's."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.Client(headers={"authorization": f"Bearer {token}"}, timeout=60)
        self._response = self._client.send(self._client.build_request("GET", url + "/admin/events"), stream=True)
        self._response.raise_for_status()
        self.num_bytes = 0
        self._has_snapshot = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._has_snapshot.wait(60):
            raise SystemExit("no snapshot came")

    def _read(self) -> None:
        try:
            for piece in self._response.iter_raw():
                self.num_bytes += len(piece)
                if b"event: snapshot" in piece:
                    self._has_snapshot.set()
        except (httpx.HTTPError, httpx.StreamError):
            pass

    def close(self) -> None:
        self._response.close()
        self._client.close()


@contextmanager
def readers(url: str, token: str, count: int) -> Iterator[list[Reader]]:
    with ExitStack() as stack:
        made = [Reader(url, token) for _ in range(count)]
        for reader in made:
            stack.callback(reader.close)
        yield made


class Benchmark:
    def __init__(self, arguments: argparse.Namespace, server: ServerProcess, token: str) -> None:
        self._arguments = arguments
        self._server = server
        self._pids = server.engine_pid(), server.pid
        self._token = token
        self._source = random.Random(0)
        self._target = LoadTarget(HttpClient(server.url), Endpoint.COMPLETIONS, arguments.model)
        self.measured: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
        self.num_bytes: list[float] = []

    async def _streams(self, prompts: list[list[int]], listens: bool) -> tuple[float, ...]:
        output = self._arguments.output
        jobs = [Job(prompt, output, {"temperature": 0, "ignore_eos": True}) for prompt in prompts]
        quiet = set(cpu_nanoseconds(self._pids[0]))  # threads without a listener
        with readers(self._server.url, self._token, self._arguments.listeners if listens else 0) as listening:
            before = [cpu_nanoseconds(pid) for pid in self._pids]
            received = sum(reader.num_bytes for reader in listening)
            result = await put_load(self._target, jobs, Arrivals(concurrency=len(jobs)))
            after = [cpu_nanoseconds(pid) for pid in self._pids]
            received = sum(reader.num_bytes for reader in listening) - received
        failed = [one.message for one in result.records if one.error is not None]
        if failed:
            raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
        if listens:
            self.num_bytes.append(received / output / len(listening))
        gaps = [gap for one in result.records for gap in one.inter_token_gaps()]
        used = [sum(late.values()) - sum(early.values()) for early, late in zip(before, after, strict=True)]
        reporting = sum(after[0][task] - before[0][task] for task in set(before[0]) - quiet)
        times = (used[0], reporting, used[1])
        return (*(time_ / output / 1e3 for time_ in times), statistics.median(gaps) * 1e3)

    def _prompts(self) -> list[list[int]]:
        sizes = range(self._arguments.streams)
        return [[self._source.randrange(LOWEST_TOKEN, HIGHEST_TOKEN) for _ in range(16)] for _ in sizes]

    async def run(self) -> None:
        await self._streams(self._prompts(), False)
        for round_ in range(self._arguments.rounds):
            prompts = self._prompts()  # cached in the prefix cache from the second time on
            await self._streams(prompts, False)
            for listens in ((False, True), (True, False))[round_ % 2]:
                self.measured[listens].append(await self._streams(prompts, listens))
        self._target.client.close()


def one_report(streams: int, count: int = 300) -> tuple[float, float]:
    """Return mean processor microseconds of a sample, and of the report made from it, one per step."""
    core, _ = free_core(streams, count)
    sampler, kept = ActivitySampler(core), ActivityReport()
    samples, reports = [], []
    for number in range(count):
        core.step()
        is_full = number % 5 == 0  # every fifth report includes counts and the cache map
        begun = time.thread_time()
        sample = sampler.take(with_caches=is_full)
        taken = time.thread_time()
        encode(kept.update([sample], with_counts=is_full, with_caches=is_full))
        reports.append(time.thread_time() - taken)
        samples.append(taken - begun)
    return statistics.mean(samples) * 1e6, statistics.mean(reports) * 1e6


def report(benchmark: Benchmark, arguments: argparse.Namespace) -> None:
    off, on = benchmark.measured[False], benchmark.measured[True]
    print(f"{arguments.model}, {arguments.streams} streams, {arguments.output} steps, {arguments.rounds} rounds")
    print(f"{'':30} {'without':>10} {'with':>10} {'difference':>11} {'of the rounds':>20}")
    for place, name in enumerate(FIGURES):
        without, with_ = ([one[place] for one in figures] for figures in (off, on))
        pairs = sorted(b - a for a, b in zip(without, with_, strict=True))
        spread = f"{pairs[0]:.1f} to {pairs[-1]:.1f}"
        medians = statistics.median(without), statistics.median(with_), statistics.median(pairs)
        print(f"{name:30} {medians[0]:10.1f} {medians[1]:10.1f} {medians[2]:11.1f} {spread:>20}")
    sample, made = one_report(arguments.streams)
    print(f"one report, at most ten a second: engine's thread {sample:.0f} µs, reporting thread {made:.0f} µs")
    print(f"bytes of events a step for one listener: {statistics.median(benchmark.num_bytes):.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--output", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--listeners", type=int, default=1)
    arguments = parser.parse_args()
    with antiphon_server(arguments.model) as server:
        token = next(one.admin_token for one in local_servers() if one.pid == server.pid)
        if token is None:
            raise SystemExit("the server has no admin token of its own")
        benchmark = Benchmark(arguments, server, token)
        run_loop(benchmark.run())
    report(benchmark, arguments)


if __name__ == "__main__":
    main()
