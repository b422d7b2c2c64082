"""How commands look and end: plain type names in help, errors of standard output, exit codes."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from antiphon.cli.arguments.groups import with_groups
from antiphon.cli.arguments.quick_values import use_quick_values
from antiphon.errors import AntiphonError, InvalidRequestError, UsageError

#: For every command. A `--help` that is absent counts as False, not None: for None, Typer would load its validation
#: library (0.1 s).
SETTINGS: dict[str, Any] = {
    "default_map": {"help": False, "install_completion": False, "show_completion": False},
    "help_option_names": ["-h", "--help"],
}
SIGPIPE_STATUS = 141  # 128 + SIGPIPE, as a shell reports a program that wrote into a closed pipe
#: What help calls the types of Typer's descriptions.
TYPE_NAMES = {
    "str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER", "path": "PATH",
    "file": "FILE", "directory": "FOLDER", "bool": "BOOL",
}  # fmt: skip


class PlainCommand(TyperCommand):
    """A command with a quick start, whose help has TEXT, N and PATH where Typer has the names of Python's types."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        use_quick_values(self.params)
        for parameter in self.params:
            shown = getattr(parameter, "display_type_rich", None)
            if shown is not None:  # older releases of Typer have plain names
                parameter.display_type_rich = _Plain(parameter, shown)  # type: ignore[attr-defined]


def command_from(found: Callable[..., None] | typer.Typer, name: str) -> Any:
    """Return a function, or an application of several, as the command of that name."""
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    options: dict[str, Any] = dict(cls=PlainCommand, context_settings=SETTINGS, callback=with_groups(found))
    info = typer.models.CommandInfo(name=name, **options)
    return typer.main.get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


class _Plain:
    """The type of one parameter as help shows it; arguments have a name already."""

    def __init__(self, parameter: Any, shown: Any) -> None:
        self._parameter = parameter
        self._shown = shown

    def __call__(self, ctx: Any) -> str:
        if self._parameter.param_type_name == "argument":
            return ""
        text = self._shown(ctx=ctx) or ""
        match = re.fullmatch(r"<(?:list\[)?(.*?)\]?>(?:\.\.\.)?", text)
        return text if match is None else TYPE_NAMES.get(match[1], match[1])


@contextmanager
def usage_errors(flag: str | None = None) -> Iterator[None]:
    """Around the check of option values: what is wrong with them is an error in usage, exit code 2."""
    try:
        yield
    except UsageError:
        raise
    except InvalidRequestError as error:
        raise UsageError(str(error) if flag is None else f"{flag}: {error}") from error


class OutputError(Exception):
    """Standard output cannot be written. Not an `AntiphonError`: commands that go on after one of those must end."""


class OutputClosedError(OutputError):
    """The reader of standard output has gone, as in `antiphon run ... | head -1`."""


class _GuardedOutput(io.FileIO):
    """Standard output whose errors can be told from those of any other file."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise OutputClosedError("standard output was closed") from error
            raise OutputError(f"cannot write to standard output: {error.strerror or error}") from error


def guard_output() -> None:
    """Have `OutputError` raised where standard output cannot be written; a stream that was replaced is left alone."""
    old = sys.stdout
    if old is not sys.__stdout__ or not isinstance(old, io.TextIOWrapper) or sys.platform == "win32":
        return
    raw = _GuardedOutput(old.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.line_buffering,
        write_through=old.write_through,
    )


def end_with(error: AntiphonError | OutputError) -> NoReturn:
    """Report an error in one line and exit: 2 for wrong usage, 1 for a failure. A closed standard output is silent."""
    if isinstance(error, OutputError):
        _discard_output()
    if isinstance(error, OutputClosedError):
        sys.exit(SIGPIPE_STATUS)
    with suppress(OSError):
        print(f"antiphon: {error}", file=sys.stderr)
    sys.exit(2 if isinstance(error, UsageError) else 1)


def _discard_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter's last flush does not fail too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
