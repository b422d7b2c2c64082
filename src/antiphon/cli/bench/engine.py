"""`antiphon bench latency` and `antiphon bench throughput`: an engine measured in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.bench.outputs import Html, Output, check_outputs
from antiphon.cli.terminal.files import write_json, write_text
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.bench.engine.engine_bench import EngineWorkload
    from antiphon.runtime.loading.loading import LoadedModel

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]", help=options.MODEL_HELP, autocompletion=options.complete_model, show_default=False
    ),
]
RandomWeights = Annotated[
    str | None,
    typer.Option(
        "--random-weights",
        metavar="SHAPE",
        help="Measure random bf16 weights of this shape instead of a model, such as qwen3-0.6b or llama-3.1-8b.",
        show_default=False,
    ),
]
InputLength = Annotated[int, typer.Option("--input-len", help="Tokens per prompt.", min=1)]
OutputLength = Annotated[int, typer.Option("--output-len", help="Tokens per answer.", min=1)]
Temperature = Annotated[
    float, typer.Option("--temperature", help="Randomness; 0 always picks the most likely token.", min=0.0)
]
IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos/--no-ignore-eos", help="Continue every answer to its full length.")
]
StepTokens = Annotated[int, typer.Option("--max-step-tokens", help="Maximum number of tokens in one step.", min=1)]
BatchInvariant = Annotated[
    bool,
    typer.Option("--batch-invariant", help="Measure the mode in which an answer does not depend on other requests."),
]


def latency(
    model: Model = None,
    random_weights: RandomWeights = None,
    batch_sizes: Annotated[
        str, typer.Option("--batch-sizes", help="Sequences that are computed together; several, as in 1,8,32.")
    ] = "1",
    input_len: InputLength = 512,
    output_len: OutputLength = 128,
    temperature: Temperature = 0.0,
    ignore_eos: IgnoreEos = True,
    rounds: Annotated[int, typer.Option("--rounds", help="Repetitions; the median is reported.", min=1)] = 1,
    max_step_tokens: StepTokens = 2048,
    device: options.Device = "auto",
    kv_type: options.KVType = None,
    quantize: options.Quantize = None,
    batch_invariant: BatchInvariant = False,
    seed: options.Seed = 0,
    offline: options.Offline = False,
    output: Output = None,
    html: Html = None,
) -> None:
    """Measure the time of a step for each batch size, without a server."""
    from antiphon.bench.engine.engine_bench import EngineWorkload, bench_latency

    with usage_errors():
        batches = _sizes(batch_sizes)
    workload = EngineWorkload(
        input_len, output_len, temperature, ignore_eos, seed, kv_type, max_step_tokens, batch_invariant
    )
    loaded = _load(model, random_weights, workload, quantize, offline, (output, html), device)
    _report(bench_latency(loaded, workload, batches, rounds), output, html)


def throughput(
    model: Model = None,
    random_weights: RandomWeights = None,
    num_prompts: Annotated[int, typer.Option("--num-prompts", help="Number of prompts.", min=1)] = 64,
    max_running: Annotated[int, typer.Option("--max-running", help="Most requests computed together.", min=1)] = 64,
    input_len: InputLength = 512,
    output_len: OutputLength = 128,
    temperature: Temperature = 0.0,
    ignore_eos: IgnoreEos = True,
    max_step_tokens: StepTokens = 2048,
    device: options.Device = "auto",
    kv_type: options.KVType = None,
    quantize: options.Quantize = None,
    speculate: options.Speculate = None,
    batch_invariant: BatchInvariant = False,
    seed: options.Seed = 0,
    offline: options.Offline = False,
    output: Output = None,
    html: Html = None,
) -> None:
    """Measure the tokens per second of many prompts together, without a server."""
    from antiphon.bench.engine.engine_bench import EngineWorkload, bench_throughput

    workload = EngineWorkload(
        input_len,
        output_len,
        temperature,
        ignore_eos,
        seed,
        kv_type,
        max_step_tokens,
        batch_invariant,
        speculate or Speculation.OFF,
    )
    loaded = _load(model, random_weights, workload, quantize, offline, (output, html), device)
    _report(bench_throughput(loaded, workload, num_prompts, max_running), output, html)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise InvalidRequestError(f"--batch-sizes is {text!r}; it is one or more whole numbers, as in 1,8,32")
    return sizes


def _load(
    model: str | None,
    random_weights: str | None,
    workload: EngineWorkload,
    quantize: options.Quantization | None,
    offline: bool,
    outputs: tuple[Path | None, Path | None],
    device: str,
) -> LoadedModel:
    """The model that is measured. What can be wrong with the arguments is rejected before it is loaded."""
    with usage_errors():
        if (model is None) == (random_weights is None):
            raise InvalidRequestError("give a model or --random-weights, and not both")
    check_outputs(*outputs)
    if model is not None:
        from antiphon.cli.local.session import load

        loaded = load(model, offline, quantize=quantize, task="generate", device=device)
    else:
        from antiphon.bench.random_models.random_model import random_model
        from antiphon.ops import Device
        from antiphon.runtime.loading.weight_forms import WeightOptions

        with usage_errors():
            opened = Device.parse(device)
            loaded = random_model(str(random_weights), WeightOptions(quantize=quantize), workload.seed, opened)
        print(f"{loaded.name}: {loaded.report.line()}", file=sys.stderr)
    return loaded


def _report(result: dict[str, Any], output: Path | None, html: Path | None) -> None:
    from antiphon.bench.engine.engine_table import engine_table
    from antiphon.bench.report.engine_report import engine_report

    if output is not None:
        write_json(output, result)
    if html is not None:
        write_text(html, engine_report(result))
    print(engine_table(result))
