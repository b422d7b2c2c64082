"""The command line as a user types it, run in the test's own process."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import typer.main
import typer.testing

from antiphon.cli.app import main
from antiphon.cli.remote import running
from support.programs.forks import home_is_shared

#: Code with which `python -c` runs the program.
PROGRAM = "from antiphon.cli.app import main; main()"

_command = cache(typer.main.get_command)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Invoke = Callable[..., Outcome]


def assert_refused(outcome: Outcome, *parts: str, code: int = 1) -> None:
    """Check the exit code, that standard output is empty, and that the last line of the error contains all `parts`."""
    last = outcome.err.splitlines()[-1]
    assert (outcome.code, outcome.out) == (code, ""), outcome
    assert last.startswith("antiphon: ") and "Traceback" not in outcome.err
    for part in parts:
        assert part in last


def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Typer build the program's commands once instead of in each run, where building takes a tenth of a second."""
    monkeypatch.setattr(typer.main, "get_command", _command)
    monkeypatch.setattr(typer.testing, "_get_command", _command)


def invoker(monkeypatch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[bytes], encoding: str = "utf-8") -> Invoke:
    """Return a function that runs a command with these arguments and `stdin`; no server is configured for it.

    Running servers are found only in a models folder of the test's own.
    """
    built_once(monkeypatch)
    has_run_files = running.has_run_files
    monkeypatch.setattr(running, "has_run_files", lambda: not home_is_shared() and has_run_files())
    for name in ("BASE_URL", "API_KEY", "ADMIN_KEY"):
        monkeypatch.delenv(f"ANTIPHON_{name}", raising=False)

    def run(*arguments: str, stdin: str | bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["antiphon", *arguments])
        piped = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="utf-8"))
        code, on_interrupt = 0, signal.getsignal(signal.SIGINT)
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            signal.signal(signal.SIGINT, on_interrupt)
        sys.stdout.flush()
        written = captured.readouterr()
        return Outcome(code, written.out.decode(encoding), written.err.decode())

    return run
