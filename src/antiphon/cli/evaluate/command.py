"""`antiphon eval`: measure a model's quality on a task."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.cli import options
from antiphon.cli.bench.outputs import Output, check_outputs
from antiphon.cli.command import usage_errors
from antiphon.cli.files import write_json
from antiphon.counted import counted


def evaluate(
    model: options.ModelArgument,
    task: Annotated[str, typer.Option("--task", help="What is measured.")] = "perplexity",
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="JSON lines; for perplexity a text.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Score only this many items.", min=1, show_default=False)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Maximum length of an answer.", min=1, show_default=False)
    ] = None,
    raw: options.Raw = False,
    device: options.Device = "auto",
    kv_type: options.KVType = None,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    offline: options.Offline = False,
    output: Output = None,
) -> None:
    """Measure a model's quality on a task, with confidence intervals."""
    from antiphon.evaluation.results import result_of, result_table
    from antiphon.evaluation.run import run_task
    from antiphon.evaluation.settings import Setting, opened
    from antiphon.evaluation.task import TaskOptions
    from antiphon.evaluation.tasks.registry import make_task

    chosen = TaskOptions(max_tokens=max_tokens, raw=raw)
    with usage_errors():
        wanted = make_task(task, chosen)
    check_outputs(output, None)
    items = wanted.read(data)
    given: dict[str, Any] = {"kv": kv_type, "repack": "off" if no_repack else None, "quantize": quantize}
    setting = Setting({key: str(value) for key, value in given.items() if value is not None})

    from antiphon.cli.session import load

    loaded = load(model, offline, no_repack, quantize, task=wanted.model_task, device=device)
    progress = Progress()
    with opened(loaded, setting) as subject:
        run = run_task(wanted, subject, items, limit, progress.step)
    progress.end()
    source = str(data) if data is not None else "the bundled sample"
    result = result_of(wanted, loaded.name, run, dict(setting.values), source, asdict(chosen))
    if output is not None:
        write_json(output, result)
    print(result_table(result, wanted.metrics))
    if not run.is_complete:
        raise KeyboardInterrupt


class Progress:
    """A line that counts items, if standard error is a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()

    def step(self, done: int, total: int) -> None:
        if self._is_shown and (done % max(1, total // 100) == 0 or done == total):
            print(f"\r{done:,} of {counted(total, 'item')}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
