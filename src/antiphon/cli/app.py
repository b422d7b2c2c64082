"""The `antiphon` command: one Typer application; what a command needs is imported when it runs."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from antiphon import __version__
from antiphon.cli import batch, bench, config, generate, models, serve, speak, transcribe
from antiphon.errors import AntiphonError

# A `--help` that is absent counts as False, not None: for None, Typer would load its validation library (0.1 s).
QUICK = {"default_map": {"help": False}}

app = typer.Typer(
    name="antiphon",
    help="One inference engine for language and speech.",
    context_settings=QUICK,
    no_args_is_help=True,
    add_completion=False,
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


app.command()(serve.serve)
app.command()(config.config)
app.command()(generate.run)
app.command()(generate.chat)
app.command()(batch.batch)
app.command()(batch.embed)
app.add_typer(bench.app, name="bench")
app.command()(transcribe.transcribe)
app.command()(speak.speak)
app.command()(models.pull)
app.command("list", context_settings=QUICK)(models.list_models)
app.command()(models.info)
app.command("rm")(models.remove)


def main() -> None:
    """Run the command line: an error the user can mend is one line and exit code 1, Ctrl-C is exit code 130.

    A command that is told to end, or whose terminal is closed, leaves as little behind as one that is interrupted.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        app()
    except AntiphonError as error:
        print(f"antiphon: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
