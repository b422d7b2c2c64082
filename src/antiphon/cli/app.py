"""The `antiphon` command: one Typer application. Commands import what they need when they run."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from antiphon import __version__
from antiphon.cli.arguments.command import SETTINGS, OutputError, PlainCommand, end_with, guard_output
from antiphon.cli.bench.command import app as bench
from antiphon.cli.catalog import analyze, stored
from antiphon.cli.evaluate.command import evaluate
from antiphon.cli.remote import manage
from antiphon.cli.serving.command import serve
from antiphon.cli.serving.config import config
from antiphon.cli.sound.speak import speak
from antiphon.cli.sound.transcribe import transcribe
from antiphon.cli.talk.command import talk
from antiphon.cli.text import batch, run
from antiphon.errors import AntiphonError

app = typer.Typer(
    name="antiphon",
    help="One inference engine for language and speech.",
    context_settings=SETTINGS,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One inference engine for language and speech."""


COMMANDS: dict[str, Callable[..., None]] = {
    "serve": serve,
    "config": config,
    "run": run.run,
    "chat": run.chat,
    "batch": batch.batch,
    "embed": batch.embed,
    "transcribe": transcribe,
    "speak": speak,
    "talk": talk,
    "eval": evaluate,
    "ps": manage.ps,
    "stop": manage.stop,
    "pull": stored.pull,
    "list": stored.list_models,
    "info": stored.info,
    "analyze": analyze.analyze,
    "rm": stored.remove,
}
for _name, _command in COMMANDS.items():
    app.command(_name, cls=PlainCommand, context_settings=SETTINGS)(_command)
app.add_typer(bench, name="bench")


def main() -> None:
    """Run the command line. An error is one line on standard error.

    Exit codes: 1 for a failure, 2 for wrong usage, 130 after Ctrl-C. SIGTERM and SIGHUP end a command as cleanly as
    Ctrl-C does.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    guard_output()
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (AntiphonError, OutputError) as error:
        end_with(error)
    except KeyboardInterrupt:
        sys.exit(130)
