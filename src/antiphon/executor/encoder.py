"""`EncoderExecutor`: the stages of an encoder-decoder's encoder, for the windows of many requests at once."""

from __future__ import annotations

import time

import torch

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.executor import DoneHandle
from antiphon.models.encoder_decoder import EncoderDecoder


class EncoderExecutor:
    """Between stages a request's states lie in its `result`, so that one that is aborted leaves nothing behind."""

    def __init__(self, model: EncoderDecoder) -> None:
        self._model = model

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        model, requests = self._model, plan.requests
        length = model.cross_tokens
        seq_start = torch.arange(0, (len(requests) + 1) * length, length, dtype=torch.int32)
        if plan.stage == 0:
            x = torch.stack([request.inputs for request in requests])
        elif len(requests) == 1:
            x = requests[0].result
        else:
            x = torch.cat([request.result for request in requests])
        built = time.perf_counter()
        states = model.encode_stage(plan.stage, x, seq_start)
        outputs = [states] if len(requests) == 1 else [part.clone() for part in states.split(length)]
        for request, output in zip(requests, outputs, strict=True):
            request.result = output
        timings = {"build": built - begun, "run": time.perf_counter() - built}
        return DoneHandle(StepResult([], outputs=outputs, timings=timings))

    def close(self) -> None:
        pass
