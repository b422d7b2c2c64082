"""`antiphon bench serve`: put load on a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.bench.outputs import ResultFiles
from antiphon.cli.remote.address import key_in
from antiphon.cli.terminal.count_line import CountLine
from antiphon.counted import counted
from antiphon.errors import AntiphonError, InvalidRequestError

if TYPE_CHECKING:
    from antiphon.bench.load.arrivals import Arrivals
    from antiphon.bench.load.workload import Workload

DEFAULT_CONCURRENCY = 8
DEFAULT_LENGTHS = ("128", "64")
LENGTHS = "a number, uniform LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA"


class LoadOptions(OptionGroup):
    """Options for the requests of a workload and their arrivals."""

    endpoint: Annotated[Literal["chat", "completions"], typer.Option(help="Chat completions or plain completions.")] = (
        "chat"
    )
    num_requests: Annotated[int, typer.Option(help="Number of measured requests.", min=1)] = 100
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="N,...",
            help=f"Requests in flight; {DEFAULT_CONCURRENCY} without --request-rate. Several are measured in turn.",
        ),
    ] = None
    request_rate: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER,...",
            help="Requests per second, at random times (Poisson). Several, as in 1,2,4, are measured in turn.",
        ),
    ] = None
    burstiness: Annotated[
        float, typer.Option(help="With --request-rate: below 1 is burstier than Poisson, above 1 more even.")
    ] = 1.0
    input_len: Annotated[
        str | None, typer.Option(help=f"Tokens per prompt, of random words: {LENGTHS}. [default: 128]")
    ] = None
    output_len: Annotated[
        str | None,
        typer.Option(
            help="Tokens per answer, in the same notation; with --dataset-file, as in the file. [default: 64]"
        ),
    ] = None
    shared_prefix: Annotated[
        int, typer.Option(help="Tokens that all prompts share at their start, in addition to their own.", min=0)
    ] = 0
    dataset_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take prompts from a file in ShareGPT format.")
    ] = None
    temperature: Annotated[float, typer.Option(help="Randomness; 0 always picks the most likely token.")] = 0.0
    ignore_eos: Annotated[bool, typer.Option(help="Ask for answers of the full length, if the server supports it.")] = (
        True
    )
    warm_up: Annotated[int, typer.Option(help="Number of requests before the measured ones.", min=0)] = 2
    seed: Annotated[int, typer.Option(help="Random seed of prompts and arrival times.")] = 0

    def workloads(self) -> list[Workload]:
        """Return a workload per load, each with its own prompts: a server's prefix cache has those of the others."""
        from antiphon.bench.load.lengths import Lengths
        from antiphon.bench.load.openai_stream import Endpoint
        from antiphon.bench.load.workload import Workload

        lengths = (self.input_len, self.output_len)
        if self.dataset_file is None:
            lengths = (self.input_len or DEFAULT_LENGTHS[0], self.output_len or DEFAULT_LENGTHS[1])
        loads = self._arrivals()
        first = Workload(
            Endpoint(self.endpoint),
            loads[0],
            self.num_requests,
            None if lengths[0] is None else Lengths.parse(lengths[0], "--input-len"),
            None if lengths[1] is None else Lengths.parse(lengths[1], "--output-len"),
            self.shared_prefix,
            self.dataset_file,
            self.temperature,
            self.ignore_eos,
            self.warm_up,
        )
        return [replace(first, arrivals=load, seed=self.seed + index) for index, load in enumerate(loads)]

    def _arrivals(self) -> list[Arrivals]:
        from antiphon.bench.load.arrivals import Arrivals

        concurrency, rates = self.concurrency, self.request_rate
        if rates is None:
            wanted = _numbers(str(DEFAULT_CONCURRENCY) if concurrency is None else concurrency, int, "--concurrency")
            return [Arrivals(int(number), None, self.burstiness) for number in wanted]
        found = _numbers(rates, float, "--request-rate")
        fixed = None if concurrency is None else int(_numbers(concurrency, int, "--concurrency")[0])
        return [Arrivals(fixed, rate, self.burstiness) for rate in found]


def serve(
    base_url: Annotated[str, typer.Option(metavar="URL", help="A server with OpenAI's API: http://host:port.")],
    model: Annotated[str, typer.Option(help="Name of the model on the server.")],
    *,
    load: LoadOptions,
    slo: Annotated[
        str | None, typer.Option(help="Limits in milliseconds for goodput, such as ttft:300,tpot:50,e2e:5000.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Maximum duration of a request.", min=0.001)
    ] = 600.0,
    api_key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="File with the server's API key.")] = None,
    files: ResultFiles,
) -> None:
    """Put load on a server and report latencies, throughput, goodput and errors."""
    from antiphon.bench.load.objectives import Objectives
    from antiphon.bench.serve_bench import BenchTarget, bench_serve
    from antiphon.bench.table import result_table

    with usage_errors():
        workloads = load.workloads()
        objectives = None if slo is None else Objectives.parse(slo)
    files.check()
    key = None if api_key_file is None else key_in(api_key_file, "--api-key-file")
    where = BenchTarget(base_url, model, key, timeout)
    results = []
    for workload in workloads:
        line = CountLine("request")
        results.append(bench_serve(where, workload, objectives, _counter(line, load.num_requests)))
        line.end()
        print(result_table(results[-1]), end="\n\n" if len(workloads) > 1 else "\n")
    _report(results, files)
    if not any(result["figures"]["completed"] for result in results):
        raise AntiphonError(f"none of {counted(load.num_requests * len(results), 'request')} completed")


def _counter(line: CountLine, total: int) -> Callable[[object], None]:
    """Return a function that counts each ended request on the line."""
    done = count(1)
    return lambda _: line.show(next(done), total)


def _numbers(text: str, convert: Callable[[str], float], option: str) -> list[float]:
    try:
        numbers = [convert(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers):
        raise InvalidRequestError(f"{option} is {text!r}; it is a number, or several different ones as in 1,2,4")
    return numbers


def _report(results: list[dict[str, Any]], files: ResultFiles) -> None:
    """Print a comparison if there are several loads, and write the requested files."""
    from antiphon.bench.report.serve_report import serve_report
    from antiphon.bench.results import sweep
    from antiphon.bench.table import load_table

    if len(results) > 1:
        print(load_table(results))
    result = results[0] if len(results) == 1 else sweep(results)
    files.write(result, lambda _: serve_report(results))
