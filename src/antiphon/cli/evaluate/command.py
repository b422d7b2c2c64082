"""`antiphon eval`: measure a model's quality on a task, compare settings, and sweep over them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.arguments import model_options
from antiphon.cli.arguments.answer_options import Raw
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.bench.outputs import ResultFiles
from antiphon.errors import InvalidRequestError


class ItemOptions(OptionGroup):
    """Options for measuring each item of a task; names are those of `TaskOptions`."""

    context: Annotated[
        int | None, typer.Option(help="Perplexity: tokens per window. Default: 1024, or what the model takes.", min=2)
    ] = None
    stride: Annotated[
        int | None,
        typer.Option(help="Perplexity: tokens from one window to the next. Default: half the context.", min=1),
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option(help="Maximum length of an answer, in tokens. Default: depends on the task.", min=1)
    ] = None
    raw: Raw = False
    language: Annotated[
        str | None, typer.Option(help="wer, cer, voice: language of the sound as a code. Default: detected.")
    ] = None
    voice: Annotated[str | None, typer.Option(help="voice: name of the voice. Default: the model's own.")] = None
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="voice: model that transcribes what is spoken. Default: whisper-base.en."),
    ] = None


class ComparedRuns(OptionGroup):
    """Options for further runs to compare with."""

    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|FILE",
            help="Also run with this setting, or read this result, and test the difference; can be repeated. "
            "Two files without a model are compared with each other.",
        ),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="Measure quality, speed and memory of every combination of settings, as in "
            "--sweep kv=fp16,int8 repack=on,off.",
        ),
    ] = None
    slo: Annotated[
        str | None,
        typer.Option(help="With --sweep: limits in milliseconds for goodput, such as ttft:300,tpot:50."),
    ] = None


class SweepFiles(ResultFiles):
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --sweep: also write a report with plots as one HTML page."),
    ] = None


def evaluate(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help=model_options.MODEL_HELP, autocompletion=model_options.complete_model),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE,...", help="More settings for --sweep.")
    ] = None,
    *,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="What is measured; --list-tasks lists the names.")
    ] = "perplexity",
    list_tasks: Annotated[bool, typer.Option("--list-tasks", help="List tasks and settings, and exit.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Items as JSON lines; for perplexity, plain text; for wer and cer, also a folder of recordings. "
            "Default: a small sample, where the task has one.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Score only the first items.", min=1)] = None,
    items: ItemOptions,
    runs: ComparedRuns,
    engine: model_options.EngineOptions,
    offline: model_options.Offline = False,
    files: SweepFiles,
) -> None:
    """Measure a model's quality on a task, with confidence intervals."""
    if list_tasks:
        from antiphon.cli.evaluate.listing import print_tasks

        print_tasks()
        return
    with usage_errors():
        _check(model, more, runs, files)
    files.check()
    from antiphon.cli.evaluate.request import EvalRequest, sources

    compared, sweep = runs.compare or [], runs.sweep
    if model is None:
        from antiphon.cli.evaluate.comparison import compare_files

        compare_files([Path(name) for name in compared], files.output)
        return
    request = EvalRequest.make(model, task, vars(items), data, limit, engine, offline)
    if sweep:
        from antiphon.cli.evaluate.sweep import run_sweep

        run_sweep(request, [*sweep, *(more or [])], runs.slo, files)
    else:
        from antiphon.cli.evaluate.comparison import run_and_compare

        run_and_compare(request, *sources(compared), files.output)


def _check(model: str | None, more: list[str] | None, runs: ComparedRuns, files: SweepFiles) -> None:
    """Raise InvalidRequestError if the options contradict each other."""
    compared = runs.compare or []
    if model is None and (runs.sweep or len(compared) != 2 or any("=" in name for name in compared)):
        raise InvalidRequestError("give a model, or two result files with --compare")
    if runs.sweep and compared:
        raise InvalidRequestError("give --sweep or --compare, not both")
    if more and not runs.sweep:
        raise InvalidRequestError(f"{more[0]!r} was not expected; settings such as kv=int8 follow --sweep or --compare")
    if not runs.sweep and (runs.slo is not None or files.html is not None):
        raise InvalidRequestError(f"{'--slo' if runs.slo is not None else '--html'} goes with --sweep")
