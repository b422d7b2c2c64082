"""`EngineLoop`: the thread that owns an `EngineCore`; no other thread touches the core."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from antiphon.engine.core import EngineCore, describe
from antiphon.engine.request import FinishReason, Request
from antiphon.errors import DeviceError, EngineError

Value = TypeVar("Value")

JOIN_SECONDS = 30.0
CLOSED = "the engine is closed"
FIGURES = ("running", "waiting", "blocks_free", "blocks_cached", "blocks_owned")


def slot_figures(core: EngineCore) -> dict[str, dict[str, int]]:
    """Return each slot's running and waiting requests, cache blocks and bytes. Call it in the engine's thread."""
    figures: dict[str, dict[str, int]] = {}
    for name, slot in core.slots.items():
        kv = getattr(slot.scheduler, "kv", None)  # one-shot requests have no cache
        figures[name] = dict(zip(FIGURES, slot.scheduler.figures(), strict=True))
        figures[name]["bytes_owned"] = 0 if kv is None else kv.usage().owned_bytes
    return figures


class EngineLoop:
    """Thread that runs steps while there is work. Other threads submit calls, which it executes between steps."""

    def __init__(
        self, core: EngineCore, after_step: Callable[[], None] | None = None, name: str = "antiphon-engine"
    ) -> None:
        self.core = core
        self._after_step = after_step
        self._calls: deque[tuple[Callable[[], object], Future[object]]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self.failure: str | None = None
        self._round_since: float | None = None
        core.on_done = self._wake.set
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy_since(self) -> float | None:
        """`time.monotonic` at which the current round or the oldest step in flight began; None while idle.

        A round makes the submitted calls and runs a step.
        """
        begun = [since for since in (self._round_since, self.core.busy_since) if since is not None]
        return min(begun, default=None)

    def call(
        self, function: Callable[[], Value], on_done: Callable[[Future[Value]], None] | None = None
    ) -> Future[Value]:
        """Let the engine's thread call `function`, then `on_done`, between two steps."""
        future: Future[Value] = Future()
        if on_done is not None:
            future.add_done_callback(on_done)
        if self._closing or self.failure is not None:
            future.set_exception(EngineError(self.failure or CLOSED))
            return future
        self._calls.append((function, future))  # type: ignore[arg-type]
        self._wake.set()
        return future

    def end(self, error: DeviceError) -> None:
        """Stop the loop because a device is lost: every open request and call fails with the error. Return at once."""

        def fail() -> None:
            raise error

        self.call(fail)

    def add(self, requests: list[Request], on_done: Callable[[Future[None]], None] | None = None) -> Future[None]:
        """Submit requests, either all or none; the future raises the error that rejected them."""

        def add_all() -> None:
            added: list[Request] = []
            try:
                for request in requests:
                    self.core.add(request)
                    added.append(request)
            except Exception:
                for request in added:
                    self.core.abort(request.id)
                raise

        return self.call(add_all, on_done)

    def abort_all(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        """End requests together, between two steps. Return at once."""

        def abort() -> None:
            for request_id in request_ids:
                self.core.abort(request_id, reason)

        if request_ids and not self._closing and self.failure is None:
            self.call(abort)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._round_since = time.monotonic()
                self._make_calls()
                advanced = self.core.has_work and self.core.step()
                if self._after_step is not None:
                    self._after_step()  # even if no request advanced, since a deadline may have ended one
                if advanced:
                    continue
                if not self.core.has_work:
                    self.core.check_integrity()
                if not self._calls:
                    self._round_since = None
                    self._wake.wait(None if self.core.is_waiting or not self.core.has_work else 0.01)
                    self._wake.clear()
        except BaseException as error:
            self._die(describe(error) if isinstance(error, Exception) else type(error).__name__)
            raise
        finally:
            self._make_calls()

    def _make_calls(self) -> None:
        while self._calls:
            function, future = self._calls.popleft()
            if not future.set_running_or_notify_cancel():
                continue  # the caller has cancelled the call
            try:
                future.set_result(function())
            except DeviceError as error:
                future.set_exception(error)
                raise
            except Exception as error:
                future.set_exception(error)
        if self._after_step is not None:
            self._after_step()

    def _die(self, cause: str) -> None:
        """Fail every open request and call because the loop itself failed."""
        self.failure = f"the engine stopped: {cause}"
        for request in self._open_requests():
            request.finish_reason, request.error = FinishReason.FAILED, self.failure
            request.state = FinishReason.FAILED.state
            if request.on_end is not None:
                request.on_end(request)
        self._fail_calls(self.failure)
        if self._after_step is not None:
            self._after_step()

    def _open_requests(self) -> list[Request]:
        requests = (request for slot in self.core.slots.values() for request in slot.scheduler.requests())
        return [request for request in requests if not request.is_ended]

    def close(self) -> None:
        """End every request, free all memory and stop the thread."""
        if self._closing:
            return
        if self.failure is None:
            self.call(self._unload_all).result(JOIN_SECONDS)
        self._closing = True
        self._wake.set()
        self._thread.join(JOIN_SECONDS)
        self._fail_calls(CLOSED)  # calls that were made while the thread was ending

    def _fail_calls(self, why: str) -> None:
        while self._calls:
            _, future = self._calls.popleft()
            future.set_exception(EngineError(why))

    def _unload_all(self) -> None:
        ended = self._open_requests()
        for name in list(self.core.slots):
            self.core.remove_model(name)
        for request in ended:
            request.error = CLOSED  # else a reader takes the part that it has for a whole answer
        self.core.close()
