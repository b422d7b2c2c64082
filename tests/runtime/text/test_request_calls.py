"""Calls of requests: the error that rejects them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from antiphon.errors import ContextLengthError, EngineError
from antiphon.runtime.text.calls import EmbeddingCall


class FailingLoop:
    """Loop that rejects every request with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def add(self, _: Any, on_done: Callable[[Future[None]], None]) -> Future[None]:
        future: Future[None] = Future()
        future.set_exception(self._error)
        on_done(future)
        return future


class Events(list[Any]):
    """Sink that keeps events."""

    def put(self, _: str, event: Any) -> None:
        self.append(event)


def rejected_with(error: Exception) -> Any:
    sink: Any = Events()
    loop: Any = FailingLoop(error)
    call = EmbeddingCall("call", sink)
    call.submit(loop, call._submitted)
    [event] = sink
    return event


def test_a_rejection_reaches_the_caller_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    error = ContextLengthError("41 tokens; the model takes 32")
    assert rejected_with(error) is error
    assert capsys.readouterr().err == ""


def test_a_defect_is_traced_and_reaches_the_caller_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    event = rejected_with(ZeroDivisionError("division by zero"))
    assert isinstance(event, EngineError) and str(event) == "ZeroDivisionError: division by zero"
    assert capsys.readouterr().err.endswith("ZeroDivisionError: division by zero\n")
