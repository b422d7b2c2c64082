"""The commands as a user types them, in this process."""

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


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    """Run the program; `stdin` is what is piped into it."""
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
        captured = capfdbinary.readouterr()
        return Outcome(code, captured.out.decode("latin-1"), captured.err.decode())

    return run
