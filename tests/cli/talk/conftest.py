from __future__ import annotations

import pytest

from support.programs.command_line import Invoke, invoker


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    return invoker(monkeypatch, capfdbinary)
