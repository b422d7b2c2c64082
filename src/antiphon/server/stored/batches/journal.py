"""`Journal`: the results of a batch so far, on disk, one line each. No result is written twice."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from antiphon.server.stored.batches.record import Counts
from antiphon.server.stored.files.state_folder import FILE_MODE

OUTPUT, ERROR = ".output", ".error"
#: Code and message for requests that did not run in time.
EXPIRED = ("batch_expired", "This request could not be executed before the completion window expired.")


class Journal:
    """Two files that become the batch's files: results of successful requests, and of failed ones.

    A line counts as written once the disk has it. Opening the journal removes a line that a crash cut short.
    """

    def __init__(self, folder: Path, batch_id: str) -> None:
        self.output, self.error = folder / (batch_id + OUTPUT), folder / (batch_id + ERROR)
        self.done: set[str] = set()
        self.counts = Counts()
        self.num_expired = 0
        self.tokens: Counter[str] = Counter()
        self._sizes = {path: self._read(path) for path in (self.output, self.error)}
        self._lock = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    @property
    def num_bytes(self) -> int:
        return sum(self._sizes.values())

    def _read(self, path: Path) -> int:
        """Record the lines of a file, truncate it after the last complete line, and return its size in bytes."""
        size = 0
        if not path.exists():
            return size
        with open(path, "rb+") as stream:
            for data in stream:
                if not data.endswith(b"\n"):
                    break
                try:
                    line = orjson.loads(data)
                    custom_id = line["custom_id"]
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    break
                size += len(data)
                self._note(custom_id, line, path)
            stream.truncate(size)
            os.fsync(stream.fileno())
        return size

    def _note(self, custom_id: str, line: dict[str, Any], path: Path) -> None:
        self.done.add(custom_id)
        if path == self.output:
            self.counts.completed += 1
            self.tokens.update(_tokens(line))
        else:
            self.counts.failed += 1
            self.num_expired += (line.get("error") or {}).get("code") == EXPIRED[0]

    async def append(self, line: dict[str, Any], has_failed: bool) -> None:
        """Write a line. Raise `OSError` if the disk fails. Cancelling the caller does not stop the write."""
        task = asyncio.create_task(self._append(line, self.error if has_failed else self.output))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait for writes in flight."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _append(self, line: dict[str, Any], path: Path) -> None:
        data = orjson.dumps(line) + b"\n"
        async with self._lock:
            await asyncio.to_thread(append_to, path, data, self._sizes[path])
            self._sizes[path] += len(data)
            self._note(line["custom_id"], line, path)


def append_to(path: Path, data: bytes, size: int) -> None:
    """Write at the end of a file of this size. After an error, restore the size if possible."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            os.lseek(descriptor, size, os.SEEK_SET)
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _tokens(line: dict[str, Any]) -> dict[str, int]:
    """Return the token counts of an answer, read by any route's field names."""
    usage = (line["response"]["body"] or {}).get("usage") or {}
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    thought = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
    return {
        "input": usage.get("prompt_tokens", usage.get("input_tokens", 0)),
        "output": usage.get("completion_tokens", usage.get("output_tokens", 0)),
        "cached": details.get("cached_tokens", 0),
        "reasoning": thought.get("reasoning_tokens", 0),
    }
