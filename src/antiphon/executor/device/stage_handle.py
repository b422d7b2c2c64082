"""`StageHandle`: a stage of one-shot requests that runs on a device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from antiphon.engine.plan import StepResult
from antiphon.executor.sampling.transfer import Transfer


class StageHandle:
    """Done when the device has come to the end of the stage and `transfer`, which was started last, is on the host.

    `finish` makes the result, after the transfer was fetched. Without events (the device is the CPU) it is done at once.
    """

    def __init__(
        self,
        transfer: Transfer,
        finish: Callable[[], StepResult],
        waiter: ThreadPoolExecutor,
        begun: torch.cuda.Event | None,
        ended: torch.cuda.Event | None,
    ) -> None:
        self._transfer = transfer
        self._finish = finish
        self._waiter = waiter
        self._begun, self._ended = begun, ended

    def choose(self) -> None:
        """There are no tokens."""

    def notify(self, on_done: Callable[[], None]) -> None:
        """Call `on_done` when the stage has ended, from a thread that waits for it."""
        self._waiter.submit(self._wait, on_done)

    def _wait(self, on_done: Callable[[], None]) -> None:
        try:
            if self._ended is not None:
                self._ended.synchronize()
        finally:
            on_done()  # `result` raises the same error

    def done(self) -> bool:
        """Whether `result` returns, or raises, without waiting."""
        try:
            return self._ended is None or self._ended.query()
        except Exception:
            return True

    def result(self) -> StepResult:
        if self._ended is not None:
            self._ended.synchronize()
        self._transfer.fetch()
        result = self._finish()
        if self._begun is not None and self._ended is not None:
            result.timings["run"] = self._begun.elapsed_time(self._ended) * 1e-3
        return result
