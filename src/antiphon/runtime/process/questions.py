"""`Questions`: commands to the engine process that have exactly one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.process.engine_process import EngineProcess


class Questions:
    """Pending commands by kind and by name or id, for one event loop."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], asyncio.Future[Any]] = {}

    async def ask(self, process: EngineProcess, key: tuple[str, str], command: msgspec.Struct) -> Any:
        """Send a command and return its answer; raise an answer that is an error."""
        answer = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        try:
            process.send(command)
            return await answer
        finally:
            self._answers.pop(key, None)

    def pending(self, key: tuple[str, str]) -> asyncio.Future[Any] | None:
        """Return the pending answer to a command, or None if the command is not pending."""
        return self._answers.get(key)

    def answer(self, key: tuple[str, str], value: Any) -> bool:
        """Set the answer of a pending command; return False if none has this key."""
        answer = self._answers.get(key)
        if answer is None or answer.done():
            return answer is not None
        if isinstance(value, AntiphonError):
            answer.set_exception(value)
        else:
            answer.set_result(value)
        return True

    def fail(self, message: str) -> None:
        """Fail all pending commands, because the process has died."""
        for key in list(self._answers):
            self.answer(key, EngineError(message))
