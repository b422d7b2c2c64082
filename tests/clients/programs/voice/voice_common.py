"""What the voice programs share: where the server is, what they say, and what they report."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

HOST = os.environ["CLIENT_HOST"]
BASE_URL = f"{HOST}/v1"
SOCKET_URL = BASE_URL.replace("http", "ws", 1) + "/realtime"
KEY = os.environ["CLIENT_KEY"]
MODEL = "gpt-realtime"
TRANSCRIPTION = "gpt-4o-mini-transcribe"
#: A sentence and a silence that ends the turn: 16 bits, 24 kHz, mono.
SPEECH = Path(os.environ["CLIENT_SPEECH"]).read_bytes()
RATE = 24_000
#: Bytes of 100 ms.
CHUNK = RATE // 10 * 2
CHUNKS = [SPEECH[start : start + CHUNK] for start in range(0, len(SPEECH), CHUNK)]

INSTRUCTIONS = "Answer in one short sentence."
LONG_INSTRUCTIONS = "Tell a long story about what was said."
#: Of an answer, and of one that is interrupted.
SHORT, LONG = 20, 400
TOOL_QUESTION = "What is the weather in Paris?"
LONG_QUESTION = "Tell me a long story about a ship on the sea."
TOOL_RESULT = "It is sunny, with 18 degrees."
City = Literal["Paris", "Oslo"]
TIMEOUT = 120
#: The code of the error that answers a cancel without a response in progress.
NOT_ACTIVE = "response_cancel_not_active"


class Report:
    """What happened, printed as one line of JSON. `notify` wakes those that wait for something to have happened."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.heard = ""
        self.answers: list[dict[str, Any]] = []
        self.tool_arguments: dict[str, Any] | None = None
        self.interrupted_status: str | None = None
        #: The response had ended before the server read that it should.
        self.was_over = False
        self.errors: list[str] = []
        self._changed = asyncio.Event()

    def saw(self, kind: str) -> None:
        self.kinds.append(kind)
        self.notify()

    def answered(self, text: str, sound: bytes) -> None:
        self.answers.append({"text": text, "sound": base64.b64encode(sound).decode()})
        self.notify()

    def failed(self, code: str | None, error: object) -> None:
        if code == NOT_ACTIVE:
            self.was_over = True
        else:
            self.errors.append(str(error))
        self.notify()

    def notify(self) -> None:
        self._changed.set()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                while not holds():
                    assert not self.errors, self.errors
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what}: {TIMEOUT} s passed; seen so far: {self.kinds}") from None

    async def until_seen(self, kind: str, times: int = 1) -> None:
        await self.until(lambda: self.kinds.count(kind) >= times, f"{times} × {kind}")

    def print(self) -> None:
        print(
            json.dumps(
                {
                    "kinds": self.kinds,
                    "heard": self.heard,
                    "answers": self.answers,
                    "tool_arguments": self.tool_arguments,
                    "interrupted_status": self.interrupted_status,
                    "was_over": self.was_over,
                    "errors": self.errors,
                }
            )
        )
