"""Measure the server's cost on top of the engine: processor time per token, token gaps, time to first token.

    python benchmarks/server_overhead.py [--model smollm2-135m] [--streams 32] [--output 64] [--rounds 5]

`antiphon serve` runs in its own processes; the embedded engine runs in this one. Both get the same prompts (random
token ids, new in every round), in turns, so that drifts in the machine's speed affect both alike:

- Processor time per streamed token of the server's process and of its engine process, all streams at once.
- Median gap between two tokens of a stream. In nearly all steps every stream gets a token, so this is the time of such
a step: as the clients see it for the server, by its own clock for the embedded engine.
- One request at a time: time to the first token through HTTP, minus that of the embedded engine, pair by pair; and
minus the engine's own time for the same request.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.generator import LoadTarget, put_load
from antiphon.bench.load.http_stream import HttpClient
from antiphon.bench.load.openai_stream import Endpoint, Job
from antiphon.bench.serve_bench import run_loop
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import LoadedModel, load_model
from support.programs.server_process import ServerProcess, antiphon_server, cpu_seconds

MAX_CPU_MICROSECONDS = 60.0
MAX_STEP_RATIO = 1.05
MAX_ADDED_MILLISECONDS = 5.0
LOWEST_TOKEN = 100  # lower ids are special tokens in many vocabularies


@dataclass
class Measured:
    """Measurements, one per round or per request: microseconds of processor time per token, milliseconds of latency."""

    server_cpu: list[float] = field(default_factory=list)
    engine_cpu: list[float] = field(default_factory=list)
    tokens_per_chunk: list[float] = field(default_factory=list)
    served_gap: list[float] = field(default_factory=list)
    embedded_gap: list[float] = field(default_factory=list)
    served_first: list[float] = field(default_factory=list)
    embedded_first: list[float] = field(default_factory=list)
    engine_first: list[float] = field(default_factory=list)


class Benchmark:
    def __init__(
        self, arguments: argparse.Namespace, server: ServerProcess, engine: Engine, loaded: LoadedModel
    ) -> None:
        self._arguments = arguments
        self._server = server
        self._engine_pid = server.engine_pid()
        self._engine = engine
        self._source = random.Random(0)
        self._vocab_size = loaded.tokenizer.vocab_size
        self._target = LoadTarget(HttpClient(server.url), Endpoint.COMPLETIONS, loaded.name)
        self.measured = Measured()

    def _prompts(self, count: int) -> list[list[int]]:
        length = self._arguments.input
        return [[self._source.randrange(LOWEST_TOKEN, self._vocab_size) for _ in range(length)] for _ in range(count)]

    def _jobs(self, prompts: list[list[int]], output: int) -> list[Job]:
        return [Job(prompt, output, {"temperature": 0, "ignore_eos": True, "timings": True}) for prompt in prompts]

    def _params(self, output: int) -> SamplingParams:
        return SamplingParams(max_tokens=output, ignore_eos=True)

    async def streams(self, record: bool = True) -> None:
        """Run all streams at once, on the server and then on the embedded engine."""
        count, output = self._arguments.streams, self._arguments.output
        prompts = self._prompts(count)
        before = cpu_seconds(self._server.pid), cpu_seconds(self._engine_pid)
        result = await put_load(self._target, self._jobs(prompts, output), Arrivals(concurrency=count))
        after = cpu_seconds(self._server.pid), cpu_seconds(self._engine_pid)
        failed = [one.message for one in result.records if one.error is not None]
        if failed:
            raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
        completions = self._engine.generate(prompts, self._params(output))
        if not record:
            return
        tokens = sum(one.num_output_tokens for one in result.records)
        measured = self.measured
        measured.server_cpu.append((after[0] - before[0]) / tokens * 1e6)
        measured.engine_cpu.append((after[1] - before[1]) / tokens * 1e6)
        measured.tokens_per_chunk.append(tokens / sum(one.num_chunks for one in result.records))
        gaps = [gap for one in result.records for gap in one.inter_token_gaps()]
        measured.served_gap.append(statistics.median(gaps) * 1e3)
        own = [gap for completion in completions for gap in completion.timings.inter_token_gaps]
        measured.embedded_gap.append(statistics.median(own) * 1e3)

    async def first_token(self) -> None:
        """Run a request with its own prompt on the server, then on the embedded engine."""
        [prompt] = self._prompts(1)
        [job] = self._jobs([prompt], 2)
        record = await self._target.perform(job)
        begun = time.perf_counter()
        with self._engine.stream(prompt, self._params(2)) as stream:
            next(stream)
            embedded = time.perf_counter() - begun
            stream.wait()
        self.measured.served_first.append(record.time_to_first_token * 1e3)
        self.measured.embedded_first.append(embedded * 1e3)
        self.measured.engine_first.append(record.timings["time_to_first_token"] * 1e3)

    async def run(self) -> None:
        await self.streams(record=False)
        for _ in range(self._arguments.rounds):
            await self.streams()
        for _ in range(self._arguments.requests):
            await self.first_token()
        self._target.client.close()


def verdict(value: float, limit: float) -> str:
    return "within" if value <= limit else "BEYOND"


def report(measured: Measured, arguments: argparse.Namespace) -> None:
    median = statistics.median
    cpu = median(measured.server_cpu)
    pairs = zip(measured.served_gap, measured.embedded_gap, strict=True)
    step = median(served / embedded for served, embedded in pairs)
    firsts = zip(measured.served_first, measured.embedded_first, strict=True)
    added = median(served - embedded for served, embedded in firsts)
    own = median(a - b for a, b in zip(measured.served_first, measured.engine_first, strict=True))
    print(f"{arguments.streams} streams, {arguments.input} in, {arguments.output} out, {arguments.rounds} rounds")
    print(f"server process     {cpu:8.1f} µs a token  (limit {MAX_CPU_MICROSECONDS:g}: {verdict(cpu, 60)}; each round: "
          f"{', '.join(f'{value:.0f}' for value in measured.server_cpu)})")  # fmt: skip
    print(f"engine process     {median(measured.engine_cpu):8.1f} µs a token")
    print(f"tokens a chunk     {median(measured.tokens_per_chunk):8.2f}")
    print(f"gap, served        {median(measured.served_gap):8.2f} ms")
    print(f"gap, embedded      {median(measured.embedded_gap):8.2f} ms")
    print(f"ratio              {step:8.3f}  (limit {MAX_STEP_RATIO:g}: {verdict(step, MAX_STEP_RATIO)})")
    print(f"first token, {len(measured.served_first)} requests one at a time:")
    print(f"  served           {median(measured.served_first):8.2f} ms p50")
    print(f"  embedded         {median(measured.embedded_first):8.2f} ms p50")
    print(f"  added            {added:8.2f} ms p50 of the pairs  (limit {MAX_ADDED_MILLISECONDS:g}: "
          f"{verdict(added, MAX_ADDED_MILLISECONDS)})")  # fmt: skip
    print(f"  outside engine   {own:8.2f} ms p50, by the engine's own clock for the same requests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--input", type=int, default=128)
    parser.add_argument("--output", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=30, help="single requests that measure the first token")
    arguments = parser.parse_args()
    loaded = load_model(arguments.model)
    with antiphon_server(arguments.model) as server, Engine(loaded) as engine:
        benchmark = Benchmark(arguments, server, engine, loaded)
        run_loop(benchmark.run())
    report(benchmark.measured, arguments)


if __name__ == "__main__":
    main()
