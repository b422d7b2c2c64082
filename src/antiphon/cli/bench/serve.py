"""`antiphon bench serve`: put load on a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.bench.outputs import Html, Output, check_outputs
from antiphon.cli.terminal.count_line import CountLine
from antiphon.cli.terminal.files import write_json, write_text
from antiphon.counted import counted
from antiphon.errors import AntiphonError, InvalidRequestError

if TYPE_CHECKING:
    from antiphon.bench.load.arrivals import Arrivals

DEFAULT_CONCURRENCY = 8
DEFAULT_LENGTHS = ("128", "64")
LENGTHS = "a number, uniform LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA"


class EndpointName(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


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
        str | None,
        typer.Option(
            "--concurrency",
            metavar="N,...",
            help=f"Requests in flight; {DEFAULT_CONCURRENCY} without --request-rate. Several are measured in turn.",
            show_default=False,
        ),
    ] = None,
    request_rate: Annotated[
        str | None,
        typer.Option(
            "--request-rate",
            metavar="NUMBER,...",
            help="Requests per second, at random times (Poisson). Several, as in 1,2,4, are measured in turn.",
            show_default=False,
        ),
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
    output: Output = None,
    html: Html = None,
) -> None:
    """Put load on a server and report latencies, throughput, goodput and errors."""
    from antiphon.bench.load.lengths import Lengths
    from antiphon.bench.load.objectives import Objectives
    from antiphon.bench.load.openai_stream import Endpoint
    from antiphon.bench.load.workload import Workload
    from antiphon.bench.serve_bench import BenchTarget, bench_serve
    from antiphon.bench.table import result_table

    if dataset_file is None:
        input_len, output_len = input_len or DEFAULT_LENGTHS[0], output_len or DEFAULT_LENGTHS[1]
    with usage_errors():
        loads = _loads(concurrency, request_rate, burstiness)
        workload = Workload(
            endpoint=Endpoint(endpoint.value),
            arrivals=loads[0],
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
    check_outputs(output, html)
    where = BenchTarget(base_url, model, None if api_key_file is None else _read_key(api_key_file), timeout)
    results = []
    for index, load in enumerate(loads):
        progress = Progress(num_requests)
        # Prompts of their own: those of the load before are in the server's prefix cache.
        own = replace(workload, arrivals=load, seed=seed + index)
        results.append(bench_serve(where, own, objectives, progress.step))
        progress.end()
        print(result_table(results[-1]), end="\n\n" if len(loads) > 1 else "\n")
    _report(results, output, html)
    if not any(result["figures"]["completed"] for result in results):
        raise AntiphonError(f"none of {counted(num_requests * len(results), 'request')} completed")


def _loads(concurrency: str | None, request_rate: str | None, burstiness: float) -> list[Arrivals]:
    from antiphon.bench.load.arrivals import Arrivals

    if request_rate is None and concurrency is None:
        concurrency = str(DEFAULT_CONCURRENCY)
    if request_rate is None:
        return [Arrivals(int(number), None, burstiness) for number in _numbers(concurrency, int, "--concurrency")]
    rates = _numbers(request_rate, float, "--request-rate")
    fixed = None if concurrency is None else int(_numbers(concurrency, int, "--concurrency")[0])
    return [Arrivals(fixed, rate, burstiness) for rate in rates]


def _numbers(text: str | None, convert: Callable[[str], float], option: str) -> list[float]:
    try:
        numbers = [convert(part) for part in (text or "").split(",")]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers):
        raise InvalidRequestError(f"{option} is {text!r}; it is a number, or several different ones as in 1,2,4")
    return numbers


def _report(results: list[dict[str, Any]], output: Path | None, html: Path | None) -> None:
    """The comparison of several loads, and the files."""
    from antiphon.bench.report.serve_report import serve_report
    from antiphon.bench.results import sweep
    from antiphon.bench.table import load_table

    if len(results) > 1:
        print(load_table(results))
    if output is not None:
        write_json(output, results[0] if len(results) == 1 else sweep(results))
    if html is not None:
        write_text(html, serve_report(results))


class Progress:
    """Counts requests as they end."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._line = CountLine("request")

    def step(self, _: object) -> None:
        self._done += 1
        self._line.show(self._done, self._total)

    def end(self) -> None:
        self._line.end()


def _read_key(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"cannot read the key in {path}: {error}") from error
    if not lines:
        raise InvalidRequestError(f"{path} has no key")
    return lines[0]
