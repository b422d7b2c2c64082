"""`MeasuredStep`: the decode step of a model on a device, measured by itself."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from antiphon.executor.device.buckets import split_count
from antiphon.executor.device.one_shot import on_stream
from antiphon.executor.device.trial_rows import TrialRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device
from antiphon.ops.triton.capture import capture
from antiphon.ops.triton.kernel_launch import Call, Launch
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.program.costs import LaunchCost, launch_costs
from antiphon.ops.triton.program.step import LoweredDecodeStep, StepMemory, step_bytes

REPEATS = 20
#: Clock cycles, about 20 ms, for which the card is kept busy while the host launches a step.
BUSY_CYCLES = 40_000_000


class MeasuredStep:
    """Decode step that computes a token for each request after `context` tokens.

    The weights must be on the device. Raises `UnrecordableError` with the reason if the model has no such step.
    """

    def __init__(
        self, decoder: TokenDecoder, device: Device, requests: TrialRows, context: int, vocab_size: int
    ) -> None:
        self._device, self._context = device, context
        self._requests, rows, target = requests, requests.count, device.torch
        if device.stream is not None:
            torch.cuda.synchronize(target)  # weights and rows were made on another stream than the step's
        with torch.inference_mode(), on_stream(device):
            self.recording = make_recording(decoder.step(requests.cache))
            heads = [layout.group.num_kv_heads for layout in requests.store.layouts]
            size = (rows, split_count(rows, min(heads), context + 1), requests.store.as_step_rows())
            on = card(target)
            needed = step_bytes(self.recording, *size, device.compute_type, vocab_size, on)
            memory = StepMemory.allocate(rows, needed, max(1 << 14, rows * max(heads)), target)
            memory.rows.copy_(torch.arange(rows, dtype=torch.int32))
            self._step = LoweredDecodeStep(self.recording, *size, memory, device.compute_type, vocab_size, on)

    @property
    def launches(self) -> list[Launch | Call]:
        return self._step.launches

    def costs(self) -> list[LaunchCost]:
        return list(launch_costs(self.recording, self.launches, self._requests.count, self._context))

    def run(self, tokens: Tensor | None = None) -> Tensor:
        """Compute the logits after tokens [rows], or after the last sampled tokens, launched kernel by kernel."""
        with torch.inference_mode(), on_stream(self._device):
            if tokens is not None:
                self._requests.store.last_token.copy_(tokens)
            self._begin()
            self._step.run()
            logits = self._step.logits[: self._requests.count].clone()
        if self._device.stream is not None:
            self._device.stream.synchronize()
        return logits

    def launch_seconds(self) -> list[float]:
        """Measure the median seconds of each launch by the card's clock. Kernels do not overlap."""
        self.run()  # compiles the kernels
        times = [self._timed([launch.__call__ for launch in self.launches]) for _ in range(REPEATS)]
        return [statistics.median(own) for own in zip(*times, strict=True)]

    def graph_seconds(self) -> float:
        """Measure the median seconds of the whole step as one CUDA graph."""
        self.run()
        with torch.inference_mode(), on_stream(self._device):
            graph, _ = capture(self._step.run, torch.cuda.graph_pool_handle())
        return statistics.median(self._timed([graph.replay])[0] for _ in range(REPEATS))

    def _timed(self, calls: list[Callable[[], object]]) -> list[float]:
        """Measure the seconds of each call. The card is busy until the host has launched all, so it never waits."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(calls) + 1)]
        with torch.inference_mode(), on_stream(self._device):
            self._begin()
            torch.cuda._sleep(BUSY_CYCLES)
            events[0].record()
            for call, event in zip(calls, events[1:], strict=True):
                call()
                event.record()
            events[-1].synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in pairwise(events)]

    def _begin(self) -> None:
        """Reset the lengths of the rows, which every step advances."""
        self._requests.store.length.fill_(self._context)
