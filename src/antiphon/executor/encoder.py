"""`EncoderExecutor`: the stages of an encoder, for the inputs of many requests at once."""

from __future__ import annotations

import time

import torch

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.handle import DoneHandle
from antiphon.models.base.parts import Encoder


class EncoderExecutor:
    """Between stages a request's states are kept in its `result`, so that an aborted request leaves nothing behind."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        encoder, requests = self._encoder, plan.requests
        length = encoder.num_states
        seq_start = torch.arange(0, (len(requests) + 1) * length, length, dtype=torch.int32)
        if plan.stage == 0:
            x = torch.stack([request.inputs for request in requests])
        elif len(requests) == 1:
            x = requests[0].result
        else:
            x = torch.cat([request.result for request in requests])
        built = time.perf_counter()
        states = encoder.run_stage(plan.stage, x, seq_start)
        outputs = [states] if len(requests) == 1 else [part.clone() for part in states.split(length)]
        for request, output in zip(requests, outputs, strict=True):
            request.result = output
        timings = {"build": built - begun, "run": time.perf_counter() - built}
        return DoneHandle(StepResult([], outputs=outputs, timings=timings))

    def close(self) -> None:
        pass
