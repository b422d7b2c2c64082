"""`antiphon bench latency` and `antiphon bench throughput`: an engine measured in this process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.bench.outputs import ResultFiles
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.bench.engine.engine_bench import EngineWorkload
    from antiphon.runtime.loading.loading import LoadedModel


class MeasuredEngine(OptionGroup):
    """Options for the measured model and its engine."""

    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help=model_options.MODEL_HELP, autocompletion=model_options.complete_model),
    ] = None
    random_weights: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPE",
            help="Measure random bf16 weights of this shape instead of a model, such as qwen3-0.6b or llama-3.1-8b.",
        ),
    ] = None
    input_len: Annotated[int, typer.Option(help="Tokens per prompt.", min=1)] = 512
    output_len: Annotated[int, typer.Option(help="Tokens per answer.", min=1)] = 128
    temperature: Annotated[float, typer.Option(help="Randomness; 0 always picks the most likely token.", min=0.0)] = 0.0
    ignore_eos: Annotated[bool, typer.Option(help="Continue every answer to its full length.")] = True
    max_step_tokens: Annotated[int, typer.Option(help="Maximum number of tokens in one step.", min=1)] = 2048
    device: model_options.Device = "auto"
    kv_type: model_options.KVType = None
    quantize: model_options.Quantize = None
    batch_invariant: Annotated[
        bool,
        typer.Option(
            "--batch-invariant", help="Measure the mode in which an answer does not depend on other requests."
        ),
    ] = False
    seed: answer_options.Seed = 0
    offline: model_options.Offline = False

    def workload(self, speculate: str | None = None) -> EngineWorkload:
        from antiphon.bench.engine.engine_bench import EngineWorkload

        return EngineWorkload(
            self.input_len,
            self.output_len,
            self.temperature,
            self.ignore_eos,
            self.seed,
            self.kv_type,
            self.max_step_tokens,
            self.batch_invariant,
            speculate or Speculation.OFF,
        )

    def load(self, files: ResultFiles) -> LoadedModel:
        """Load the model, after rejecting arguments that can be checked without it."""
        with usage_errors():
            if (self.model is None) == (self.random_weights is None):
                raise InvalidRequestError("give a model or --random-weights, and not both")
        files.check()
        if self.model is not None:
            from antiphon.cli.local.session import load

            wanted: dict[str, Any] = dict(quantize=self.quantize, task="generate", device=self.device)
            return load(self.model, self.offline, **wanted, verbose=True)
        from antiphon.bench.random_models.random_model import random_model
        from antiphon.ops import Device
        from antiphon.runtime.loading.weight_forms import WeightOptions

        with usage_errors():
            opened = Device.parse(self.device)
            loaded = random_model(str(self.random_weights), WeightOptions(quantize=self.quantize), self.seed, opened)
        print(f"{loaded.name}: {loaded.report.line()}", file=sys.stderr)
        return loaded


def latency(
    batch_sizes: Annotated[
        str, typer.Option(help="Sequences that are computed together; several, as in 1,8,32.")
    ] = "1",
    rounds: Annotated[int, typer.Option(help="Repetitions; the median is reported.", min=1)] = 1,
    *,
    engine: MeasuredEngine,
    files: ResultFiles,
) -> None:
    """Measure the time of a step for each batch size, without a server."""
    from antiphon.bench.engine.engine_bench import bench_latency

    with usage_errors():
        batches = _sizes(batch_sizes)
    _report(bench_latency(engine.load(files), engine.workload(), batches, rounds), files)


def throughput(
    num_prompts: Annotated[int, typer.Option(help="Number of prompts.", min=1)] = 64,
    max_running: Annotated[int, typer.Option(help="Most requests computed together.", min=1)] = 64,
    speculate: model_options.Speculate = None,
    *,
    engine: MeasuredEngine,
    files: ResultFiles,
) -> None:
    """Measure the tokens per second of many prompts together, without a server."""
    from antiphon.bench.engine.engine_bench import bench_throughput

    _report(bench_throughput(engine.load(files), engine.workload(speculate), num_prompts, max_running), files)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise InvalidRequestError(f"--batch-sizes is {text!r}; it is one or more whole numbers, as in 1,8,32")
    return sizes


def _report(result: dict[str, Any], files: ResultFiles) -> None:
    from antiphon.bench.engine.engine_table import engine_table
    from antiphon.bench.report.engine_report import engine_report

    files.write(result, engine_report)
    print(engine_table(result))
