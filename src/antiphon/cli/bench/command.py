"""`antiphon bench`: put load on a server, compare runs, and measure an engine."""

from __future__ import annotations

import typer

from antiphon.cli.arguments.command import SETTINGS, PlainCommand
from antiphon.cli.arguments.groups import with_groups
from antiphon.cli.bench.compare import compare
from antiphon.cli.bench.engine import latency, throughput
from antiphon.cli.bench.serve import serve

app = typer.Typer(
    help="Benchmark servers and engines, and compare results.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)
for _command in (serve, compare, latency, throughput):
    app.command(cls=PlainCommand, context_settings=SETTINGS)(with_groups(_command))
