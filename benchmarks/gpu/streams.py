"""Compare many streams over HTTP with the same work by the engine alone: tokens per second, processor time per token.

    python benchmarks/gpu/streams.py [--device cuda] [--streams 256] [--input 128] [--output 256] [--model MODEL]

Without `--model`, `antiphon serve` loads random weights from a folder, in the shape of Qwen3-0.6B on a GPU and of a
small model on the CPU. First the engine runs in this process, then the server with its engine process; both get prompts
of random tokens, all streams at once, after a warm-up round. The clients are in this process, so a machine should have
three cores or more.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import torch

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.generator import LoadTarget, put_load
from antiphon.bench.load.http_stream import HttpClient
from antiphon.bench.load.openai_stream import Endpoint, Job
from antiphon.bench.random_models.random_model import SHAPES
from antiphon.bench.serve_bench import run_loop
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from support.models.random_files import write_random_model
from support.programs.server_process import ServerProcess, antiphon_server, cpu_seconds

TEMPERATURE = 0.6
LOWEST_TOKEN, HIGHEST_TOKEN = 100, 1000
SMALL = SHAPES["qwen3-0.6b"] | {
    "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 2000, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32,
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """Work of a round; its prompts are the same for the engine and for the server."""

    streams: int
    input: int
    output: int
    kv_megabytes: int

    def prompts(self, number: int) -> list[list[int]]:
        source = random.Random(number)
        return [[source.randrange(LOWEST_TOKEN, HIGHEST_TOKEN) for _ in range(self.input)] for _ in range(self.streams)]


@dataclass(frozen=True)
class Round:
    """Results of a round; `server`, `engine` and `client` are processor microseconds per token."""

    tokens: int
    seconds: float
    tokens_per_chunk: float = 1.0
    server: float = 0.0
    engine: float = 0.0
    client: float = 0.0

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def alone(model: str, device: str, work: Work, rounds: int) -> list[Round]:
    """Run the engine in this process, with every token delivered as text."""
    config = EngineConfig(
        device=device, kv_bytes=work.kv_megabytes << 20, prefix_caching=False, max_running=work.streams
    )
    params = SamplingParams(max_tokens=work.output, ignore_eos=True, temperature=TEMPERATURE)
    found = []
    with Engine(model, config=config) as engine:
        for number in range(rounds + 1):
            prompts = work.prompts(number)
            begun = time.perf_counter()
            completions = engine.generate(prompts, params)
            seconds = time.perf_counter() - begun
            found.append(Round(sum(len(one.token_ids) for one in completions), seconds))
    return found[1:]


def served(model: str, device: str, work: Work, rounds: int, endpoint: Endpoint) -> list[Round]:
    options = ["--device", device, "--no-prefix-caching", "--max-running", str(work.streams)]
    options += ["--kv-memory", str(work.kv_megabytes), "--max-waiting", str(2 * work.streams)]
    with antiphon_server(model, *options) as server:
        target = LoadTarget(HttpClient(server.url), endpoint, Path(model).name)
        found: list[Round] = run_loop(_rounds(server, target, work, rounds + 1))
    return found[1:]


async def _rounds(server: ServerProcess, target: LoadTarget, work: Work, count: int) -> list[Round]:
    try:
        return [await _round(server, target, work, number) for number in range(count)]
    finally:
        target.client.close()


async def _round(server: ServerProcess, target: LoadTarget, work: Work, number: int) -> Round:
    settings = {"temperature": TEMPERATURE, "ignore_eos": True}
    jobs = [Job(prompt, work.output, settings) for prompt in work.prompts(number)]
    engine = server.engine_pid()
    before = cpu_seconds(server.pid), cpu_seconds(engine)
    result = await put_load(target, jobs, Arrivals(concurrency=work.streams))
    after = cpu_seconds(server.pid), cpu_seconds(engine)
    failed = [one.message for one in result.records if one.error is not None]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(jobs)} requests failed: {failed[0]}")
    tokens, chunks = (sum(getattr(one, name) for one in result.records) for name in ("num_output_tokens", "num_chunks"))
    own, other = ((b - a) / tokens * 1e6 for a, b in zip(before, after, strict=True))
    return Round(tokens, result.seconds, tokens / chunks, own, other, result.cpu_seconds / tokens * 1e6)


@contextmanager
def model_path(model: str | None, device: str) -> Iterator[str]:
    if model is not None:
        yield model
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = SMALL if device == "cpu" else SHAPES["qwen3-0.6b"]
        yield str(write_random_model(Path(folder) / "random", shape))


def report(work: Work, engine: list[Round], server: list[Round]) -> str:
    median = statistics.median
    own, through = (median(one.rate for one in rounds) for rounds in (engine, server))
    lines = [
        f"{work.streams} streams, {work.input} tokens in, {work.output} out",
        f"engine alone     {own:10,.0f} tok/s",
        f"through HTTP     {through:10,.0f} tok/s, {through / own:.1%} of the engine alone",
        f"server process   {median(one.server for one in server):10.1f} µs a token",
        f"engine process   {median(one.engine for one in server):10.1f} µs a token",
        f"clients          {median(one.client for one in server):10.1f} µs a token",
        f"tokens a chunk   {median(one.tokens_per_chunk for one in server):10.2f}",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", help="a catalog name, file or folder; default: random weights")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--input", type=int, default=128)
    parser.add_argument("--output", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kv-memory", type=int, default=0, help="megabytes; default: 512, on a GPU 24,576")
    parser.add_argument("--endpoint", choices=[*Endpoint], default=Endpoint.COMPLETIONS)
    arguments = parser.parse_args()
    megabytes = arguments.kv_memory or (512 if arguments.device == "cpu" else 24_576)
    work = Work(arguments.streams, arguments.input, arguments.output, megabytes)
    with model_path(arguments.model, arguments.device) as model:
        engine = alone(model, arguments.device, work, arguments.rounds)
        server = served(model, arguments.device, work, arguments.rounds, Endpoint(arguments.endpoint))
    print(report(work, engine, server))


if __name__ == "__main__":
    main()
