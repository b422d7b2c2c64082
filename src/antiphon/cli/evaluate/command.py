"""`antiphon eval`: measure a model's quality on a task, compare settings, and sweep over them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.bench.outputs import Output, check_outputs
from antiphon.errors import InvalidRequestError

Model = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", help=options.MODEL_HELP, autocompletion=options.complete_model, show_default=False),
]


def evaluate(
    model: Model = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE,...", help="More settings for --sweep.", show_default=False),
    ] = None,
    task: Annotated[
        str,
        typer.Option("--task", metavar="NAME", help="What is measured; --list-tasks lists the names."),
    ] = "perplexity",
    list_tasks: Annotated[bool, typer.Option("--list-tasks", help="List tasks and settings, and exit.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="Items as JSON lines; for perplexity, plain text; for wer and cer, also a folder of recordings. "
            "Default: a small sample, where the task has one.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Score only the first items.", min=1, show_default=False)
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            "--context", help="Perplexity: tokens per window. Default: 1024, or what the model takes.", min=2,
            show_default=False,
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride", help="Perplexity: tokens from one window to the next. Default: half the context.", min=1,
            show_default=False,
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", help="Maximum length of an answer, in tokens. Default: depends on the task.", min=1,
            show_default=False,
        ),
    ] = None,
    raw: options.Raw = False,
    language: Annotated[
        str | None,
        typer.Option(
            "--language", help="wer, cer, voice: language of the sound as a code. Default: detected.",
            show_default=False,
        ),
    ] = None,
    voice: Annotated[
        str | None,
        typer.Option("--voice", help="voice: name of the voice. Default: the model's own.", show_default=False),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge", metavar="MODEL", help="voice: model that transcribes what is spoken. Default: whisper-base.en.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="KEY=VALUE|FILE",
            help="Also run with this setting, or read this result, and test the difference; can be repeated. "
            "Two files without a model are compared with each other.",
            show_default=False,
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KEY=VALUE,...",
            help="Measure quality, speed and memory of every combination of settings, as in "
            "--sweep kv=fp16,int8 repack=on,off.",
            show_default=False,
        ),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo",
            help="With --sweep: limits in milliseconds for goodput, such as ttft:300,tpot:50.",
            show_default=False,
        ),
    ] = None,
    device: options.Device = "auto",
    kv_memory: options.KVMemory = None,
    kv_type: options.KVType = None,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    offline: options.Offline = False,
    output: Output = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="With --sweep: also write a report with plots as one HTML page.",
            show_default=False,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Measure a model's quality on a task, with confidence intervals."""
    if list_tasks:
        from antiphon.cli.evaluate.listing import print_tasks

        print_tasks()
        return
    with usage_errors():
        _check(model, more, compare, sweep, slo, html)
    check_outputs(output, html)
    from antiphon.cli.evaluate.request import EvalRequest, sources
    from antiphon.evaluation.task import TaskOptions

    if model is None:
        from antiphon.cli.evaluate.comparison import compare_files

        compare_files([Path(name) for name in compare or []], output)
        return
    chosen = TaskOptions(
        context=context,
        stride=stride,
        max_tokens=max_tokens,
        raw=raw,
        language=language,
        voice=voice,
        judge=judge,
        offline=offline,
    )
    flags = {"kv": kv_type, "repack": "off" if no_repack else None, "quantize": quantize}
    request = EvalRequest.make(model, task, chosen, data, limit, flags, device, kv_memory, offline)
    if sweep:
        from antiphon.cli.evaluate.sweep import run_sweep

        run_sweep(request, [*sweep, *(more or [])], slo, output, html)
    else:
        from antiphon.cli.evaluate.comparison import run_and_compare

        run_and_compare(request, *sources(compare or []), output)


def _check(
    model: str | None,
    more: list[str] | None,
    compare: list[str] | None,
    sweep: list[str] | None,
    slo: str | None,
    html: Path | None,
) -> None:
    """Options that do not go together."""
    if model is None and (sweep or len(compare or []) != 2 or any("=" in name for name in compare or [])):
        raise InvalidRequestError("give a model, or two result files with --compare")
    if sweep and compare:
        raise InvalidRequestError("give --sweep or --compare, not both")
    if more and not sweep:
        raise InvalidRequestError(f"{more[0]!r} was not expected; settings such as kv=int8 follow --sweep or --compare")
    if not sweep and (slo is not None or html is not None):
        raise InvalidRequestError(f"{'--slo' if slo is not None else '--html'} goes with --sweep")
