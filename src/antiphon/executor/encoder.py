"""`EncoderExecutor`: the stages of an encoder, for the inputs of many requests at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.executor.handle import DoneHandle
from antiphon.models.base.parts import Encoder


class EncoderExecutor:
    """Runs the stages of an encoder on the CPU; inputs may differ in length.

    A request has one token for each state of its input. Between stages its states are kept in its `result`, so that an
    aborted request leaves nothing behind.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        requests = plan.requests
        outputs = self._first_stage(requests) if plan.stage == 0 else self._later_stage(plan.stage, requests)
        for request, output in zip(requests, outputs, strict=True):
            request.result = output
        return DoneHandle(StepResult([], outputs=outputs, timings={"run": time.perf_counter() - begun}))

    def _first_stage(self, requests: Sequence[Request]) -> list[Tensor]:
        """Run stage 0 on the inputs, those of the same length stacked."""
        by_length: dict[int, list[int]] = {}
        for index, request in enumerate(requests):
            by_length.setdefault(len(request.prompt), []).append(index)
        outputs: dict[int, Tensor] = {}
        for length, indices in by_length.items():
            x = torch.stack([requests[index].inputs for index in indices])
            states = self._encoder.run_stage(0, x, _starts([length] * len(indices)))
            outputs |= zip(indices, _parts(states, [length] * len(indices)), strict=True)
        return [outputs[index] for index in range(len(requests))]

    def _later_stage(self, stage: int, requests: Sequence[Request]) -> list[Tensor]:
        lengths = [len(request.prompt) for request in requests]
        x = requests[0].result if len(requests) == 1 else torch.cat([request.result for request in requests])
        return _parts(self._encoder.run_stage(stage, x, _starts(lengths)), lengths)

    def close(self) -> None:
        pass


def _starts(lengths: Sequence[int]) -> Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def _parts(states: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Split states by input into tensors that share no memory."""
    return [states] if len(lengths) == 1 else [part.clone() for part in states.split(list(lengths))]
