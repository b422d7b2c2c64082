"""`antiphon analyze`: a model's costs on a machine, and the share of its limits that a run reaches."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.arguments import model_options
from antiphon.cli.arguments.command import usage_errors
from antiphon.errors import UsageError

if TYPE_CHECKING:
    from antiphon.runtime.analysis.analysis import Analysis
    from antiphon.runtime.analysis.reached import Reached
    from antiphon.runtime.loading.config import EngineConfig
    from antiphon.runtime.loading.machine_limits import GivenLimits
    from antiphon.weights.catalog.resolve import ResolvedModel


def analyze(
    model: model_options.ModelArgument,
    *,
    batch: Annotated[int, typer.Option(help="Requests that are computed together.", min=1)] = 1,
    prompt: Annotated[
        int | None,
        typer.Option(
            help="Tokens of a prompt. Default: 512, or half of what the model takes; 4 for transcription.", min=1
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            help="Tokens before the one that is decoded, and of the requests that fit. Default: as for --prompt.",
            min=1,
        ),
    ] = None,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar="GB/S,GMAC/S",
            help="Memory bandwidth and multiplications with additions per second, for a machine that is not here; "
            "a third number is the rate of int8. Default: measured here.",
        ),
    ] = None,
    engine: model_options.EngineOptions,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Also run a prefill and a decode, and print what they reach of the floors."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    offline: model_options.Offline = False,
) -> None:
    """Print what a model costs before it runs: bytes and operations of each part, the least time, memory."""
    given_limits = None if limits is None else parsed_limits(limits)
    from antiphon.cli.terminal.download_progress import fetch_progress
    from antiphon.runtime.analysis.analysis import Sizes
    from antiphon.runtime.analysis.analysis import analyze as analyze_model
    from antiphon.runtime.analysis.report import analysis_json, analysis_lines, reached_lines
    from antiphon.runtime.loading.machine_limits import GivenLimits
    from antiphon.weights.catalog.resolve import resolve

    config = _config(engine)
    with fetch_progress() as progress:
        resolved = resolve(model, offline=offline, progress=progress)
    analysis = analyze_model(resolved, Sizes(batch, prompt, context), config, given_limits or GivenLimits())
    reached = _reached(resolved, analysis, config) if profile else []
    if as_json:
        typer.echo(json.dumps(analysis_json(analysis, reached), indent=2))
    else:
        typer.echo("\n".join([*analysis_lines(analysis), *reached_lines(analysis, reached)]))


def _config(engine: model_options.EngineOptions) -> EngineConfig:
    from antiphon.runtime.loading.config import EngineConfig

    with usage_errors():
        return EngineConfig(
            device=engine.device,
            kv_bytes=None if engine.kv_memory is None else engine.kv_memory << 20,
            key_type=engine.kv_type,
            value_type=engine.kv_type,
            repack=not engine.no_repack,
            quantize=engine.quantize or "auto",
        )


def _reached(resolved: ResolvedModel, analysis: Analysis, config: EngineConfig) -> list[Reached]:
    """Run the model; return the measured speeds."""
    from antiphon.runtime.analysis.reached import check_can_run, measure
    from antiphon.runtime.loading.loading import load_resolved

    check_can_run(resolved.name, analysis.task)
    opened = config.open_device()
    loaded = load_resolved(resolved, options=config.weight_options(), task="generate", device=opened)
    print(f"{loaded.name}: {loaded.report.line()}", file=sys.stderr)
    return measure(loaded, analysis, config)


def parsed_limits(text: str) -> GivenLimits:
    """Parse the value of `--limits`, in units of 10^9 per second."""
    from antiphon.runtime.loading.machine_limits import GivenLimits

    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(math.isfinite(number) and number > 0 for number in numbers):
        raise UsageError(
            f"--limits {text[:40]!r}: give GB/s and GMAC/s as positive numbers with a comma, as in 50,400; a third "
            "number is GMAC/s of int8"
        )
    return GivenLimits(*(number * 1e9 for number in numbers))
