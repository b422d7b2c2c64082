"""Simulated device that runs behind the host, around the CPU executor.

Forward passes and sampling are queued and run later, in order: when a result is waited for, at random before that, or
on a thread. The device sees only what the host knew at the time of the call: it computes on copies of the requests,
without the tokens of decoding requests, whose newest token is in their row. A plan's packed array changes rows; the
device advances their lengths and derives positions from them. Arrays lent to the device are overwritten after use.
"""

from __future__ import annotations

import copy
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from antiphon import ops
from antiphon.engine.plan import RowSetup, StepHandle, StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.executor.decoder.executor import DecoderExecutor

#: Overwrites used tokens, table entries and masks: a valid value, so that a kernel may read it, but a wrong one.
POISON = 5
#: Fields of a request that are not copied to the device's copy.
_OWN_FIELDS = ("constraint", "on_token", "on_end")


class InjectedError(RuntimeError):
    """Failure that a test asked for."""


@dataclass(eq=False)
class Job:
    """Queued work, with the exception that it raised, if any."""

    work: Callable[[], None]
    is_done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def run(self) -> None:
        try:
            with torch.inference_mode():
                self.work()
        except Exception as error:
            self.error = error
        finally:
            self.is_done.set()


class LateDevice:
    """Queue of jobs run in order: on a thread if `threaded`, else a random number of them at each call of the host."""

    def __init__(self, source: random.Random, threaded: bool = False) -> None:
        self._source = source
        self._jobs: deque[Job] = deque()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True) if threaded else None
        if self._thread is not None:
            self._thread.start()
        self.num_waits = 0  # results that were not ready when the host asked
        self.wrong: list[str] = []  # errors of the host

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job.run()

    def put(self, work: Callable[[], None]) -> Job:
        job = Job(work)
        (self._jobs.append if self._thread is None else self._queue.put)(job)
        return job

    def advance(self) -> None:
        """Run zero to two queued jobs."""
        for _ in range(min(len(self._jobs), self._source.choice((0, 0, 0, 1, 2)))):
            self._jobs.popleft().run()

    def finish(self, job: Job) -> None:
        """Wait until the job has run; raise the job's exception, if any."""
        self.num_waits += not job.is_done.is_set()
        while self._thread is None and not job.is_done.is_set():
            self._jobs.popleft().run()
        job.is_done.wait()
        if job.error is not None:
            raise job.error

    def close(self) -> None:
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()


class SentMask:
    """Grammar of a request on the device: only the mask that the host sent for the current sampling."""

    def __init__(self, device: LateDevice, request_id: str) -> None:
        self._device = device
        self._id = request_id
        self.sent: np.ndarray | Exception | None = None

    def mask(self) -> np.ndarray:
        if self.sent is None:
            self._device.wrong.append(f"{self._id}: a draw reads a mask that was not sent")
            raise AssertionError(self._device.wrong[-1])
        if isinstance(self.sent, Exception):
            raise self.sent
        return self.sent

    def advance(self, token: int) -> None:
        raise AssertionError("grammars are advanced on the host")


class LateHandle:
    """Handle of a step on the late device."""

    def __init__(self, executor: LateExecutor, plan: StepPlan) -> None:
        self._executor, self._plan = executor, plan
        self.is_chosen = False
        self.fails = bool(plan) and executor.fails()
        self.sent = executor.send(plan)
        executor.staged[id(self.sent)] = executor.inner._rows.layout.changes(plan)
        self._forward = executor.device.put(partial(self._run_forward, executor.states(plan)))
        self._draw: Job | None = None
        self._inner: StepHandle | None = None
        self._result: StepResult | None = None

    def _run_forward(self, states: list[tuple[Request, Request]]) -> None:
        follow(states)
        self._inner = self._executor.inner.submit(self.sent)
        if self.fails:
            raise InjectedError("injected")
        for setup in self.sent.row_setups:
            setup.tables = [[POISON] * len(table) for table in setup.tables]
        poison_tokens(states)

    def choose(self) -> None:
        assert not self.is_chosen, "tokens are drawn twice"
        self.is_chosen = True
        masks: list[tuple[SentMask, Any]] = []
        for request, samples in zip(self._plan.requests, self._plan.samples, strict=True):
            if samples and request.constraint is not None and not request.is_ended:
                masks.append((self._executor.grammar_of(request), _mask_of(request)))
        states = self._executor.states(self._plan, with_tokens=True)
        self._draw = self._executor.device.put(partial(self._run_draw, states, masks))
        self._executor.device.advance()

    def _run_draw(self, states: list[tuple[Request, Request]], masks: list[tuple[SentMask, Any]]) -> None:
        if self._forward.error is not None:
            raise self._forward.error
        assert self._inner is not None
        follow(states)
        for grammar, mask in masks:
            grammar.sent = mask
        self._inner.choose()
        self._result = self._inner.result()
        for grammar, mask in masks:
            grammar.sent = None
            if isinstance(mask, np.ndarray):
                mask.fill(POISON)
        poison_tokens(states)
        self.sent.starts[:] = self.sent.counts[:] = [POISON] * len(self.sent.starts)
        self._executor.inner._forward.logits(1).fill_(float("nan"))

    def done(self) -> bool:
        self._executor.device.advance()
        return self._draw is not None and self._draw.is_done.is_set()

    def result(self) -> StepResult:
        assert self._draw is not None, "the result of a step whose tokens were not drawn"
        self._executor.device.finish(self._draw)
        assert self._result is not None
        return self._result


class LateExecutor:
    """Executor that sends plans to the device, where a CPU executor runs them on copies of the requests.

    A step for which `fails` returns True raises on the device, after its blocks have moved and its rows have changed.
    """

    late_choice = True

    def __init__(self, inner: DecoderExecutor, device: LateDevice, fails: Callable[[], bool] = lambda: False) -> None:
        self.inner, self.device, self.fails = inner, device, fails
        self.staged: dict[int, np.ndarray] = {}  # row changes by the id of the sent plan
        inner._rows.apply = self._apply  # type: ignore[method-assign]
        self._copies: dict[int, tuple[Request, Request]] = {}  # host's and device's request, by the id of the host's
        self._last: LateHandle | None = None
        self.num_late_plans = 0
        self.num_unchanged = 0  # steps that changed no row

    def submit(self, plan: StepPlan) -> LateHandle:
        if self._last is not None and not self._last.is_chosen:
            self.device.wrong.append("a step was launched before the tokens that it computes were drawn")
        self.num_late_plans += plan.needs_commit
        self._last = LateHandle(self, plan)
        self.device.advance()
        return self._last

    def _apply(self, plan: StepPlan) -> None:
        """Change the device's rows, and record an error if the plan's positions differ from the device's."""
        store, changes = self.inner._rows, self.staged.pop(id(plan))
        ops.scatter_words(store.words, torch.from_numpy(changes))
        self.num_unchanged += bool(plan) and not len(changes)
        changes.fill(POISON)
        lengths = store.layout.columns["length"]
        for request, start, count in zip(plan.requests, plan.starts, plan.counts, strict=True):
            index = lengths.offset + request.row * lengths.stride
            if int(store.words[index]) != start:
                self.device.wrong.append(f"{request.id} is at {int(store.words[index])}, and its plan at {start}")
            store.words[index] += count

    def close(self) -> None:
        self.device.finish(self.device.put(self.inner.close))

    def send(self, plan: StepPlan) -> StepPlan:
        """Return a copy of the plan with the device's requests and with lists of its own."""
        sent = copy.copy(plan)
        sent.requests = [self._copy(request) for request in plan.requests]
        for name in ("starts", "counts", "samples", "table_updates", "moves", "dropped_keys"):
            setattr(sent, name, list(getattr(plan, name)))
        sent.row_setups = [
            RowSetup(self._copy(setup.request), [list(table) for table in setup.tables], setup.fills_cross)
            for setup in plan.row_setups
        ]
        return sent

    def _copy(self, request: Request) -> Request:
        if id(request) not in self._copies:
            own = copy.copy(request)
            own.on_token = own.on_end = None
            own.constraint = None if request.constraint is None else SentMask(self.device, request.id)
            self._copies[id(request)] = (request, own)
        return self._copies[id(request)][1]

    def grammar_of(self, request: Request) -> SentMask:
        grammar = self._copy(request).constraint
        assert isinstance(grammar, SentMask)
        return grammar

    def states(self, plan: StepPlan, with_tokens: bool = False) -> list[tuple[Request, Request]]:
        """Snapshot all requests on the device: pairs of the device's request and its new state.

        Tokens are included only for requests that the call reads: those with prompts or new rows, or with `with_tokens`
        all of the plan.
        """
        needed = plan.requests if with_tokens else plan.requests[plan.num_decodes :]
        readers = {id(request) for request in [*needed, *(setup.request for setup in plan.row_setups)]}
        states = []
        for request, own in self._copies.values():
            state = copy.copy(request)
            state.tokens = list(request.tokens) if id(request) in readers else [POISON] * len(request.tokens)
            states.append((own, state))
        self._copies = {key: pair for key, pair in self._copies.items() if not (pair[0].is_ended and pair[0].row < 0)}
        return states


def _mask_of(request: Request) -> np.ndarray | Exception:
    assert request.constraint is not None
    try:
        return np.array(request.constraint.mask())
    except Exception as error:
        return error


def follow(states: list[tuple[Request, Request]]) -> None:
    """Update the device's requests to their snapshots."""
    for own, state in states:
        for name in Request.__dataclass_fields__:
            if name not in _OWN_FIELDS:
                setattr(own, name, getattr(state, name))


def poison_tokens(states: list[tuple[Request, Request]]) -> None:
    for own, _ in states:
        own.tokens[:] = [POISON] * len(own.tokens)
