"""Steps of one-shot requests on a GPU: they run on the device's stream, and their results arrive later."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.device.sized_graphs import SizedGraphs
from antiphon.executor.sampling.transfer import Transfer
from antiphon.ops import Device

#: Function that returns the outputs of a step, one for each request, from its fetched transfer.
Outputs = Callable[[Transfer], list[Any]]


def wait_for_loading(device: Device) -> None:
    """Wait for the work that this thread has launched: steps use another stream than the one that makes weights.

    Waiting for the whole device would be an error while a graph is captured on it.
    """
    if device.stream is not None:
        torch.cuda.current_stream(device.torch).synchronize()


def on_stream(device: Device) -> AbstractContextManager[Any]:
    """Launch the work of a `with` block on the device's stream."""
    return nullcontext() if device.stream is None else torch.cuda.stream(device.stream)


def wait_for(transfer: Transfer, on_done: Callable[[], None]) -> None:
    """Call `on_done` when the transfer has arrived or failed."""
    try:
        transfer.wait()
    finally:
        on_done()  # `fetch` raises the same error


class OneShotHandle:
    def __init__(
        self,
        transfer: Transfer,
        outputs: Outputs,
        timings: dict[str, float],
        waiter: ThreadPoolExecutor,
        begun: torch.cuda.Event | None,
    ) -> None:
        self._transfer, self._outputs = transfer, outputs
        self._timings, self._waiter, self._begun = timings, waiter, begun

    def choose(self) -> None:
        """Do nothing: there are no tokens to sample."""

    def notify(self, on_done: Callable[[], None]) -> None:
        """Call `on_done` when the step is done, in a thread that waits for the step."""
        self._waiter.submit(wait_for, self._transfer, on_done)

    def done(self) -> bool:
        return self._transfer.has_arrived

    def result(self) -> StepResult:
        self._transfer.fetch()
        if self._begun is not None:
            self._timings["run"] = self._transfer.seconds_since(self._begun)
        return StepResult([], outputs=self._outputs(self._transfer), timings=self._timings)


class OneShotExecutor(ABC):
    """Runs the plans of one-shot requests. Only reading a step's result waits for the device.

    A step that raises leaves the states of its requests unchanged, so that they can run again in smaller steps.
    """

    def __init__(self, device: Device, record: bool = True) -> None:
        self._device = device
        self._graphs = SizedGraphs() if record and device.stream is not None else None
        #: Thread that waits for steps if an engine has several devices; steps end in the order of their launch.
        self._waiter = ThreadPoolExecutor(1, f"antiphon-{device.name}-wait")
        wait_for_loading(device)

    def submit(self, plan: StepPlan) -> OneShotHandle:
        """Launch a step without waiting for it."""
        begun = time.perf_counter()
        started: torch.cuda.Event | None = None
        with torch.inference_mode(), on_stream(self._device):
            if self._device.stream is not None:
                started = torch.cuda.Event(enable_timing=True)
                started.record()
            transfer = Transfer()
            outputs = self._launch(plan, transfer)
            transfer.start(self._device.stream)
        return OneShotHandle(transfer, outputs, {"build": time.perf_counter() - begun}, self._waiter, started)

    @abstractmethod
    def _launch(self, plan: StepPlan, transfer: Transfer) -> Outputs:
        """Launch the kernels of a step, and add the tensors that the host reads to the transfer."""

    @property
    def num_graphs(self) -> int:
        return 0 if self._graphs is None else self._graphs.num_graphs

    def close(self) -> None:
        """Wait for the device, then free the graphs."""
        if self._device.stream is not None:
            self._device.stream.synchronize()
        self._graphs = None
        self._waiter.shutdown(wait=False)
