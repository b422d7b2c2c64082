from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.programs.command_line import Invoke, built_once, invoker


@pytest.fixture(scope="session", autouse=True)
def _built_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        built_once(patch)
        yield


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    return invoker(monkeypatch, capfdbinary)
