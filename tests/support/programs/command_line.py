"""The program as a user types it, run in the test's own process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from antiphon.cli.app import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Invoke = Callable[..., Outcome]


def invoker(monkeypatch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[bytes], encoding: str = "utf-8") -> Invoke:
    """A function of a command's arguments; `stdin` is what is piped into it. No server is configured around it."""
    for name in ("BASE_URL", "API_KEY", "ADMIN_KEY"):
        monkeypatch.delenv(f"ANTIPHON_{name}", raising=False)

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["antiphon", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        sys.stdout.flush()
        written = captured.readouterr()
        return Outcome(code, written.out.decode(encoding), written.err.decode())

    return run
