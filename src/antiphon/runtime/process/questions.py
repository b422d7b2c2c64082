"""`Questions`: commands to the engine process that have one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.process.engine_process import EngineProcess


class Questions:
    """Used from one event loop. A key is what was asked, and its name or id."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], asyncio.Future[Any]] = {}

    async def ask(self, process: EngineProcess, key: tuple[str, str], command: msgspec.Struct) -> Any:
        """The answer to a command; raises it if it is an error."""
        answer = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        try:
            process.send(command)
            return await answer
        finally:
            self._answers.pop(key, None)

    def pending(self, key: tuple[str, str]) -> asyncio.Future[Any] | None:
        """The answer to come, if that was asked."""
        return self._answers.get(key)

    def answer(self, key: tuple[str, str], value: Any) -> bool:
        """False if there is no such question."""
        answer = self._answers.get(key)
        if answer is None or answer.done():
            return answer is not None
        if isinstance(value, AntiphonError):
            answer.set_exception(value)
        else:
            answer.set_result(value)
        return True

    def fail(self, message: str) -> None:
        """The process has died: no answer will come."""
        for key in list(self._answers):
            self.answer(key, EngineError(message))
