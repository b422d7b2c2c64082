from __future__ import annotations

import pytest

from support.programs.command_line import Invoke, invoker


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    """Standard output as bytes in Latin-1, since it may be sound."""
    return invoker(monkeypatch, capfdbinary, "latin-1")
