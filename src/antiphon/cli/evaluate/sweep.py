"""`antiphon eval --sweep`: a table and an HTML report of quality, speed and memory by setting."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.bench.load.objectives import Objectives
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.bench.outputs import ResultFiles
from antiphon.cli.evaluate.request import EvalRequest
from antiphon.cli.terminal.count_line import CountLine
from antiphon.evaluation.items import sample_text
from antiphon.evaluation.run import Progress
from antiphon.evaluation.settings import EngineSetting, cross_product
from antiphon.evaluation.sweep.report import sweep_report
from antiphon.evaluation.sweep.sweep import Measured, Sweep, sweep_result
from antiphon.evaluation.sweep.table import sweep_table


def run_sweep(request: EvalRequest, parts: Sequence[str], slo: str | None, files: ResultFiles) -> None:
    """Measure every setting and report; after Ctrl-C, report the settings measured so far."""
    with usage_errors():
        settings = cross_product(request.setting, parts)
        objectives = None if slo is None else Objectives.parse(slo)
    text = request.items[0] if request.task.name == "perplexity" else sample_text("perplexity.txt")
    sweep = Sweep(request.task, request.items, text, request.load, request.limit, objectives, request.engine)
    rows: list[Measured] = []
    progress = CountLine("item")

    def begin(setting: EngineSetting) -> Progress:
        nonlocal progress
        progress.end()
        progress = CountLine("item", f"{setting} ({len(rows) + 1} of {len(settings)})")
        return progress.show

    try:
        for row in sweep.run(settings, begin):
            rows.append(row)
    except KeyboardInterrupt:
        if not rows:
            raise
    finally:
        progress.end()
    labels = [str(setting) for setting in settings]
    rows.sort(key=lambda row: labels.index(row.label))
    options = request.task.options.as_json()
    result = sweep_result(request.model, request.data, sweep, rows, options, len(settings))
    files.write(result, sweep_report)
    print(sweep_table(result))
    if len(rows) < len(settings):
        raise KeyboardInterrupt
