"""`antiphon bench`: put load on a server, compare two runs, and measure an engine."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import bench_engine
from antiphon.cli.command import SETTINGS, PlainCommand, usage_errors
from antiphon.cli.files import check_writable, write_json
from antiphon.counted import counted
from antiphon.errors import AntiphonError, InvalidRequestError

app = typer.Typer(
    help="Benchmark servers and engines, and compare results.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)
DEFAULT_CONCURRENCY = 8
DEFAULT_LENGTHS = ("128", "64")
LENGTHS = "a number, uniform LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA"


class EndpointName(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


@app.command(cls=PlainCommand, context_settings=SETTINGS)
def serve(
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="A server with OpenAI's API: http://host:port.")
    ],
    model: Annotated[str, typer.Option("--model", help="Name of the model on the server.")],
    endpoint: Annotated[
        EndpointName, typer.Option("--endpoint", help="Chat completions or plain completions.")
    ] = EndpointName.CHAT,
    num_requests: Annotated[int, typer.Option("--num-requests", help="Number of measured requests.", min=1)] = 100,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            help=f"Requests in flight; {DEFAULT_CONCURRENCY} without --request-rate.",
            min=1,
            show_default=False,
        ),
    ] = None,
    request_rate: Annotated[
        float | None,
        typer.Option("--request-rate", help="Requests per second, at random times (Poisson).", show_default=False),
    ] = None,
    burstiness: Annotated[
        float,
        typer.Option("--burstiness", help="With --request-rate: below 1 is burstier than Poisson, above 1 more even."),
    ] = 1.0,
    input_len: Annotated[
        str | None,
        typer.Option(
            "--input-len", help=f"Tokens per prompt, of random words: {LENGTHS}. [default: 128]", show_default=False
        ),
    ] = None,
    output_len: Annotated[
        str | None,
        typer.Option(
            "--output-len",
            help="Tokens per answer, in the same notation; with --dataset-file, as in the file. [default: 64]",
            show_default=False,
        ),
    ] = None,
    shared_prefix: Annotated[
        int,
        typer.Option(
            "--shared-prefix", help="Tokens that all prompts share at their start, in addition to their own.", min=0
        ),
    ] = 0,
    dataset_file: Annotated[
        Path | None,
        typer.Option(
            "--dataset-file", metavar="FILE", help="Take prompts from a file in ShareGPT format.", show_default=False
        ),
    ] = None,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Randomness; 0 always picks the most likely token.")
    ] = 0.0,
    ignore_eos: Annotated[
        bool,
        typer.Option(
            "--ignore-eos/--no-ignore-eos", help="Ask for answers of the full length, if the server supports it."
        ),
    ] = True,
    warm_up: Annotated[int, typer.Option("--warm-up", help="Number of requests before the measured ones.", min=0)] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Random seed of prompts and arrival times.")] = 0,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo", help="Limits in milliseconds for goodput, such as ttft:300,tpot:50,e2e:5000.", show_default=False
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Maximum duration of a request.", min=0.001)
    ] = 600.0,
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", metavar="FILE", help="File with the server's API key.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Also write the results as JSON.", show_default=False),
    ] = None,
) -> None:
    """Put load on a server and report latencies, throughput, goodput and errors."""
    from antiphon.bench.arrivals import Arrivals
    from antiphon.bench.lengths import Lengths
    from antiphon.bench.objectives import Objectives
    from antiphon.bench.openai_stream import Endpoint
    from antiphon.bench.serve_bench import BenchTarget, bench_serve
    from antiphon.bench.table import result_table
    from antiphon.bench.workload import Workload

    if request_rate is None and concurrency is None:
        concurrency = DEFAULT_CONCURRENCY
    if dataset_file is None:
        input_len, output_len = input_len or DEFAULT_LENGTHS[0], output_len or DEFAULT_LENGTHS[1]
    with usage_errors():
        workload = Workload(
            endpoint=Endpoint(endpoint.value),
            arrivals=Arrivals(concurrency, request_rate, burstiness),
            num_requests=num_requests,
            input_lengths=None if input_len is None else Lengths.parse(input_len, "--input-len"),
            output_lengths=None if output_len is None else Lengths.parse(output_len, "--output-len"),
            shared_prefix=shared_prefix,
            dataset_file=dataset_file,
            temperature=temperature,
            ignore_eos=ignore_eos,
            num_warm_up=warm_up,
            seed=seed,
        )
        objectives = None if slo is None else Objectives.parse(slo)
    if output is not None:
        check_writable(output)
    where = BenchTarget(base_url, model, None if api_key_file is None else _read_key(api_key_file), timeout)
    progress = Progress(num_requests)
    result = bench_serve(where, workload, objectives, progress.step)
    progress.end()
    if output is not None:
        write_json(output, result)
    print(result_table(result))
    if not result["figures"]["completed"]:
        raise AntiphonError(f"none of {counted(num_requests, 'request')} completed")


@app.command(cls=PlainCommand, context_settings=SETTINGS)
def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A file that bench serve --output wrote.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one, with the same workload.")],
    tolerance: Annotated[str, typer.Option("--tolerance", help="How much worse a metric may get.")] = "5%",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="Check this metric, such as ttft.p99; can be repeated. The main ones if omitted.",
            show_default=False,
        ),
    ] = None,
    any_workload: Annotated[
        bool, typer.Option("--any-workload", help="Compare runs with different workloads.")
    ] = False,
) -> None:
    """Compare two runs. Exits with code 1 if a checked metric got worse by more than the tolerance."""
    from antiphon.bench.compare import (
        DEFAULT_METRICS,
        check_workloads,
        comparison_table,
        parse_tolerance,
        read_result,
    )
    from antiphon.bench.compare import compare as compare_results

    with usage_errors():
        allowed = parse_tolerance(tolerance)
    results = read_result(before), read_result(after)
    if not any_workload:
        check_workloads(*results)
    rows = compare_results(*results, allowed, metric or DEFAULT_METRICS)
    print(comparison_table(rows))
    worse = [row.metric for row in rows if row.is_worse]
    if worse:
        raise AntiphonError(f"worse by more than {tolerance}: {', '.join(worse)}")


for measure in (bench_engine.latency, bench_engine.throughput):
    app.command(cls=PlainCommand, context_settings=SETTINGS)(measure)


class Progress:
    """A line that counts requests, if standard error is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._is_shown = sys.stderr.isatty()

    def step(self, _: object) -> None:
        self._done += 1
        if self._is_shown and (self._done % max(1, self._total // 100) == 0 or self._done == self._total):
            print(f"\r{self._done:,} of {counted(self._total, 'request')}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _read_key(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"cannot read the key in {path}: {error}") from error
    if not lines:
        raise InvalidRequestError(f"{path} has no key")
    return lines[0]
