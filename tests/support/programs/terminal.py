"""A program on a pseudo-terminal, driven as by a person at a keyboard."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from support.programs.forks import Template
from support.waiting import PATIENCE_SECONDS

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """Pseudo-terminal whose foreground program is `python -c CODE ARGUMENT…`, in a fork of `template`.

    The terminal is the program's standard streams and its controlling terminal, so Ctrl-C sends a real SIGINT.
    """

    def __init__(
        self, template: Template, code: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._master, slave = os.openpty()
        self.opened()
        variables = {**os.environ, "TERM": "dumb", **(environment or {})}
        self.process = template.start(code, arguments, (slave, slave, slave), variables)
        os.close(slave)
        self.shown = ""

    def opened(self) -> None:
        """Prepare the terminal before the program starts, in subclasses."""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str, timeout: float = PATIENCE_SECONDS) -> str:
        """Return the output up to and including `text`; keep the rest for the next call."""
        deadline = time.monotonic() + timeout
        while text not in self.shown:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown within {timeout} s, only {self.shown[-2000:]!r}"
            self.shown += self._read()
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def press_until(self, key: str, text: str) -> None:
        """Press a key every ten seconds until `text` is shown.

        A program notices a signal that arrives just before it waits for a line only with the next key.
        """
        for _ in range(12):
            self.type(key)
            with contextlib.suppress(AssertionError):
                self.wait_for(text, timeout=10)
                return
        raise AssertionError(f"{text!r} was not shown")

    def wait_for_end(self, timeout: float = PATIENCE_SECONDS) -> int:
        """Wait for the program to exit; return its exit code. `shown` then has its last output."""
        deadline = time.monotonic() + timeout
        while select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                self.shown += self._read()
            except EOFError:
                break
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self) -> str:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux's report that the other side is closed
            data = b""
        if not data:
            raise EOFError(f"the program ended; its last words: {self.shown[-2000:]!r}")
        return data.decode("utf-8", errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
