"""`antiphon bench`: load on a server, and two runs side by side."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.errors import AntiphonError, InvalidRequestError

app = typer.Typer(
    help="Measure servers and compare what was measured.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"default_map": {"help": False}},
)
DEFAULT_CONCURRENCY = 8
DEFAULT_LENGTHS = ("128", "64")
LENGTHS = "a number, uniform LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA"


class EndpointName(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


@app.command()
def serve(
    base_url: Annotated[str, typer.Option("--base-url", help="Of any server with OpenAI's API, as http://host:port.")],
    model: Annotated[str, typer.Option("--model", help="The model's name there.")],
    endpoint: Annotated[
        EndpointName, typer.Option("--endpoint", help="Chat completions or plain completions.")
    ] = EndpointName.CHAT,
    num_requests: Annotated[int, typer.Option("--num-requests", help="Requests that are measured.", min=1)] = 100,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            help=f"Requests at a time; {DEFAULT_CONCURRENCY} without --request-rate.",
            min=1,
            show_default=False,
        ),
    ] = None,
    request_rate: Annotated[
        float | None,
        typer.Option("--request-rate", help="Requests a second, at random times (Poisson).", show_default=False),
    ] = None,
    burstiness: Annotated[
        float, typer.Option("--burstiness", help="With a rate: below 1 comes in bursts, above 1 more evenly.")
    ] = 1.0,
    input_len: Annotated[
        str | None,
        typer.Option(
            "--input-len", help=f"Tokens of a prompt of random words: {LENGTHS}. [default: 128]", show_default=False
        ),
    ] = None,
    output_len: Annotated[
        str | None,
        typer.Option(
            "--output-len",
            help="Tokens of an answer, written likewise; with a file, as its own. [default: 64]",
            show_default=False,
        ),
    ] = None,
    shared_prefix: Annotated[
        int, typer.Option("--shared-prefix", help="Tokens that all prompts begin with, besides their own.", min=0)
    ] = 0,
    dataset_file: Annotated[
        Path | None,
        typer.Option("--dataset-file", help="Prompts from a file in ShareGPT's format.", show_default=False),
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="0 always takes the likeliest token.")] = 0.0,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos/--no-ignore-eos", help="Answers of the full length, if the server can.")
    ] = True,
    warm_up: Annotated[int, typer.Option("--warm-up", help="Requests before those that are measured.", min=0)] = 2,
    seed: Annotated[int, typer.Option("--seed", help="The same seed asks the same at the same times.")] = 0,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo", help="Milliseconds that a good request keeps, as ttft:300,tpot:50,e2e:5000.", show_default=False
        ),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that a request may take.", min=0.001)] = 600.0,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", help="A file with the server's key.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Also write the figures as JSON.", show_default=False)
    ] = None,
) -> None:
    """Put load on a server and tell its latencies, throughput, goodput and errors."""
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
    where = BenchTarget(base_url, model, None if api_key_file is None else _read_key(api_key_file), timeout)
    progress = Progress(num_requests)
    result = bench_serve(where, workload, objectives, progress.step)
    progress.end()
    if output is not None:
        _write(output, result)
    print(result_table(result))
    if not result["figures"]["completed"]:
        raise AntiphonError(f"none of {num_requests:,} requests got a whole answer")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A result of bench serve --output.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one, of the same workload.")],
    tolerance: Annotated[str, typer.Option("--tolerance", help="How much worse a figure may be.")] = "5%",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="Judge this figure, as ttft.p99; may be repeated. Otherwise the main ones are judged.",
            show_default=False,
        ),
    ] = None,
    any_workload: Annotated[bool, typer.Option("--any-workload", help="Compare runs that did different work.")] = False,
) -> None:
    """Print the figures of two runs and their ratios. The exit code is 1 if a judged one became too much worse."""
    from antiphon.bench.compare import (
        DEFAULT_METRICS,
        check_workloads,
        comparison_table,
        parse_tolerance,
        read_result,
    )
    from antiphon.bench.compare import compare as compare_results

    allowed = parse_tolerance(tolerance)
    results = read_result(before), read_result(after)
    if not any_workload:
        check_workloads(*results)
    rows = compare_results(*results, allowed, metric or DEFAULT_METRICS)
    print(comparison_table(rows))
    worse = [row.metric for row in rows if row.is_worse]
    if worse:
        raise AntiphonError(f"worse by more than {allowed:.3g}: {', '.join(worse)}")


class Progress:
    """A line on the terminal that counts the requests; nothing where standard error is not a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._is_shown = sys.stderr.isatty()

    def step(self, _: object) -> None:
        self._done += 1
        if self._is_shown and (self._done % max(1, self._total // 100) == 0 or self._done == self._total):
            print(f"\r{self._done:,} of {self._total:,} requests", end="", file=sys.stderr, flush=True)

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


def _write(path: Path, result: dict[str, Any]) -> None:
    import msgspec

    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    except OSError as error:
        raise InvalidRequestError(f"cannot write {path}: {error.strerror or error}") from error
