"""Compare `antiphon serve` with llama.cpp's `llama-server`: same file, same prompts, in turns, in one run.

    python benchmarks/server_vs_llama.py FOLDER_OF_LLAMA_BINARIES [--model smollm2-135m] [--clients 32] [--rounds 5]

`llama-server` first runs with several numbers of slots, then with the best number and several kinds of KV cache (flash
attention, type); the setting with the most tokens per second is kept. Then both servers, each loaded and idle while the
other works, answer the same streaming clients in turns, with new prompts every round. Prompts are random words of
exactly `--input` tokens; answers have exactly `--output` tokens. Printed are medians over the rounds and their ratios.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.generator import LoadTarget, put_load
from antiphon.bench.load.http_stream import HttpClient
from antiphon.bench.load.openai_stream import Endpoint, Job
from antiphon.bench.load.words import find_counter, sized_texts
from antiphon.bench.serve_bench import run_loop
from antiphon.bench.summary import summarize
from antiphon.weights.catalog.resolve import resolve
from support.programs.server_process import ServerProcess, antiphon_server, started_server

LEAST_SPEED_UP = 3.0
SPARE_TOKENS = 64  # tokens of a slot's context beyond prompt and answer


@dataclass(frozen=True)
class Setting:
    """Options of `llama-server`."""

    slots: int
    flash_attention: bool
    kv_type: str

    def __str__(self) -> str:
        return f"-np {self.slots} -fa {'on' if self.flash_attention else 'off'} -ctk/-ctv {self.kv_type}"


#: Combinations of flash attention and KV type; a quantised value cache needs flash attention.
KINDS = [(True, "f16"), (True, "q8_0"), (False, "f16")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def llama_server(arguments: argparse.Namespace, model: Path, setting: Setting) -> Iterator[ServerProcess]:
    port = free_port()
    context = setting.slots * (arguments.input + arguments.output + SPARE_TOKENS)
    command = [
        str(arguments.binaries / "llama-server"), "-m", str(model), "--host", "127.0.0.1", "--port", str(port),
        "-np", str(setting.slots), "-c", str(context), "-t", str(arguments.threads), "-tb", str(arguments.threads),
        "-fa", "on" if setting.flash_attention else "off", "-ctk", setting.kv_type, "-ctv", setting.kv_type,
    ]  # fmt: skip
    with started_server(command, f"http://127.0.0.1:{port}", "/health") as server:
        yield server


class Contest:
    """Client of both servers: makes prompts with a server's tokenizer and sends either server the same requests."""

    def __init__(self, arguments: argparse.Namespace, model: str) -> None:
        self._arguments = arguments
        self._model = model
        self._round = 0

    async def prompts(self, url: str) -> list[str]:
        """Return new prompts of exactly `--input` tokens, by the server's own count."""
        self._round += 1
        client = HttpClient(url)
        try:
            counter = await find_counter(client, self._model)
            if counter is None:
                raise SystemExit(f"{url} does not count tokens")
            return await sized_texts([self._arguments.input] * self._arguments.clients, f"{self._round}", counter)
        finally:
            client.close()

    async def ask(self, url: str, prompts: list[str]) -> dict[str, Any]:
        """Send all prompts at once; return the summary of their answers."""
        client = HttpClient(url, timeout=1800)
        target = LoadTarget(client, Endpoint.COMPLETIONS, self._model)
        jobs = [Job(prompt, self._arguments.output, {"temperature": 0, "ignore_eos": True}) for prompt in prompts]
        try:
            figures = summarize(await put_load(target, jobs, Arrivals(concurrency=len(jobs))))
        finally:
            client.close()
        wanted = self._arguments.output * len(jobs)
        if figures["errors"] or figures["output_tokens"] != wanted:
            raise SystemExit(f"{url}: {figures['output_tokens']} of {wanted} tokens, errors {figures['errors']}")
        return figures

    async def fresh(self, url: str) -> dict[str, Any]:
        return await self.ask(url, await self.prompts(url))


def line(name: str, figures: dict[str, Any]) -> str:
    first = figures["latency_ms"]["ttft"]
    return (
        f"{name:44} {figures['output_tokens_per_second']:8.1f} tok/s   first token p50 {first['p50']:8.0f} ms, "
        f"p99 {first['p99']:8.0f} ms"
    )


def best_setting(arguments: argparse.Namespace, contest: Contest, path: Path) -> Setting:
    """Return the best number of slots with the first kind of cache, combined with the best kind for that number."""
    speeds: dict[Setting, float] = {}

    def best_of(settings: list[Setting]) -> Setting:
        for setting in settings:
            if setting not in speeds:
                with llama_server(arguments, path, setting) as server:
                    figures = run_loop(contest.fresh(server.url))
                print(line(f"llama-server {setting}", figures), flush=True)
                speeds[setting] = figures["output_tokens_per_second"]
        return max(settings, key=lambda setting: speeds[setting])

    slots = best_of([Setting(count, *KINDS[0]) for count in arguments.slots]).slots
    return best_of([Setting(slots, *kind) for kind in KINDS])


async def rounds(
    arguments: argparse.Namespace, contest: Contest, ours: str, theirs: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run both servers in alternating order; return their results, without the first round, which warms up."""
    kept: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for number in range(arguments.rounds + 1):
        prompts = await contest.prompts(ours)
        order = [(kept[0], ours), (kept[1], theirs)]
        for figures, url in order if number % 2 else reversed(order):
            result = await contest.ask(url, prompts)
            if number:
                figures.append(result)
                print(line(f"round {number}, {'antiphon' if url == ours else 'llama-server'}", result), flush=True)
    return kept


def median(results: list[dict[str, Any]], name: str) -> float:
    if name == "p99":
        return statistics.median(result["latency_ms"]["ttft"]["p99"] for result in results)
    return statistics.median(result[name] for result in results)


def report(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    speed = median(ours, "output_tokens_per_second"), median(theirs, "output_tokens_per_second")
    first = median(ours, "p99"), median(theirs, "p99")
    gain = statistics.median(
        one["output_tokens_per_second"] / other["output_tokens_per_second"]
        for one, other in zip(ours, theirs, strict=True)
    )
    print(f"\nmedian of {len(ours)} rounds          antiphon  llama-server     ratio")
    print(f"tokens a second            {speed[0]:10.1f}    {speed[1]:10.1f}  {speed[0] / speed[1]:8.2f}  "
          f"(round by round {gain:.2f}; wanted {LEAST_SPEED_UP:g} or more)")  # fmt: skip
    print(f"first token p99, ms        {first[0]:10.0f}    {first[1]:10.0f}  {first[0] / first[1]:8.2f}  "
          "(wanted below 1)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=Path, help="folder that has llama-server")
    parser.add_argument("--model", default="smollm2-135m", help="a GGUF file, or a catalog name of one")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--input", type=int, default=128)
    parser.add_argument("--output", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="threads of llama-server")
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 16, 32], help="slots of llama-server")
    arguments = parser.parse_args()
    path = resolve(arguments.model).path
    contest = Contest(arguments, arguments.model if not Path(arguments.model).exists() else path.stem)
    print(f"{path.name}: {arguments.clients} clients, {arguments.input} tokens in, {arguments.output} out")
    setting = best_setting(arguments, contest, path)
    print(f"kept: {setting}\n")
    with antiphon_server(arguments.model) as ours, llama_server(arguments, path, setting) as theirs:
        report(*run_loop(rounds(arguments, contest, ours.url, theirs.url)))


if __name__ == "__main__":
    main()
