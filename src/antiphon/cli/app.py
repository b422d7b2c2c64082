"""The `antiphon` command: a Typer application whose commands import their modules when they run."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from antiphon import __version__
from antiphon.cli.arguments.command import SETTINGS, OutputError, command_from, end_with, guard_output
from antiphon.errors import AntiphonError

#: Module and function of each command, in the order of the help.
COMMANDS = {
    "serve": ("serving.command", "serve"),
    "config": ("serving.config", "config"),
    "run": ("text.run", "run"),
    "chat": ("chat.command", "chat"),
    "batch": ("text.batch", "batch"),
    "embed": ("text.embed", "embed"),
    "transcribe": ("sound.transcribe", "transcribe"),
    "speak": ("sound.speak", "speak"),
    "talk": ("talk.command", "talk"),
    "eval": ("evaluate.command", "evaluate"),
    "ps": ("remote.manage", "ps"),
    "stop": ("remote.manage", "stop"),
    "pull": ("catalog.stored", "pull"),
    "list": ("catalog.stored", "list_models"),
    "info": ("catalog.info", "info"),
    "analyze": ("catalog.analyze", "analyze"),
    "rm": ("catalog.stored", "remove"),
    "bench": ("bench.command", "app"),
}


class _Commands(Mapping[str, Any]):
    """Commands by name. A command's module is imported when the command is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _command(name: str) -> Any:
    module, attribute = COMMANDS[name]
    return command_from(getattr(import_module(f"antiphon.cli.{module}"), attribute), name)


class _Group(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]


app = typer.Typer(
    name="antiphon",
    cls=_Group,
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
    pass


def main() -> None:
    """Run the command line; report an error as a line on standard error.

    Exit codes: 1 for a failure, 2 for wrong usage, 130 after Ctrl-C. SIGTERM and SIGHUP end a command as cleanly as
    Ctrl-C.
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
    finally:
        _end_at_next_interrupt()


def _end_at_next_interrupt() -> None:
    """Make Ctrl-C end the process at once, without an exception in whatever the interpreter does at its exit."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
