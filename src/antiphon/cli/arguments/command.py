"""Plain type names in help, errors of standard output, and exit codes for all commands."""

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

#: Context settings of every command. False for an absent `--help` saves 0.1 s: for None, Typer would load its
#: validation library.
SETTINGS: dict[str, Any] = {
    "default_map": {"help": False, "install_completion": False, "show_completion": False},
    "help_option_names": ["-h", "--help"],
}
SIGPIPE_STATUS = 141  # 128 + SIGPIPE, as a shell reports a program that wrote to a closed pipe
#: Names of Typer's types in help.
TYPE_NAMES = {
    "str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER", "path": "PATH",
    "file": "FILE", "directory": "FOLDER", "bool": "BOOL",
}  # fmt: skip


class PlainCommand(TyperCommand):
    """Command with a quick start, whose help has TEXT, N and PATH instead of the names of Python's types."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        use_quick_values(self.params)
        for parameter in self.params:
            shown = getattr(parameter, "display_type_rich", None)
            if shown is not None:  # older releases of Typer already have plain names
                parameter.display_type_rich = _Plain(parameter, shown)  # type: ignore[attr-defined]


def command_from(found: Callable[..., None] | typer.Typer, name: str) -> Any:
    """Return the command `name` for a function or for an application with subcommands."""
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    options: dict[str, Any] = dict(cls=PlainCommand, context_settings=SETTINGS, callback=with_groups(found))
    info = typer.models.CommandInfo(name=name, **options)
    return typer.main.get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


class _Plain:
    """Type of a parameter as shown in help; empty for arguments, which have a name."""

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
    """Turn InvalidRequestErrors of the block into UsageErrors, which exit with code 2. `flag` prefixes the message."""
    try:
        yield
    except UsageError:
        raise
    except InvalidRequestError as error:
        raise UsageError(str(error) if flag is None else f"{flag}: {error}") from error


class OutputError(Exception):
    """Error for standard output that cannot be written.

    This is no `AntiphonError`, since commands that continue after an `AntiphonError` must end here.
    """


class OutputClosedError(OutputError):
    """Error for a closed reader of standard output, as in `antiphon run ... | head -1`."""


class _GuardedOutput(io.FileIO):
    """Standard output whose errors differ in type from errors of other files."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise OutputClosedError("standard output was closed") from error
            raise OutputError(f"cannot write to standard output: {error.strerror or error}") from error


def guard_output() -> None:
    """Make failed writes to standard output raise `OutputError`; a replaced stream is left unchanged."""
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
    """Print an error in a line and exit with 2 for wrong usage, 1 for a failure; exit silently if output was closed."""
    if isinstance(error, OutputError):
        _discard_output()
    if isinstance(error, OutputClosedError):
        sys.exit(SIGPIPE_STATUS)
    with suppress(OSError):
        print(f"antiphon: {error}", file=sys.stderr)
    sys.exit(2 if isinstance(error, UsageError) else 1)


def _discard_output() -> None:
    """Redirect standard output to the null device, so that the interpreter's last flush does not fail too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
