"""`DeviceEncoderExecutor`: runs an encoder on a GPU for the inputs of many requests at once."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.one_shot import OneShotExecutor, Outputs
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.upload import upload_constant
from antiphon.models.base.parts import Encoder
from antiphon.ops import Device

#: Number of the model's stages in a step: their length suits a CPU and is too short for a GPU.
STAGES_PER_STEP = 16


def num_steps(encoder: Encoder) -> int:
    """Return the number of steps that a request takes."""
    return -(-encoder.num_stages // STAGES_PER_STEP)


class DeviceEncoderExecutor(OneShotExecutor):
    """Runs an encoder on a GPU. Inputs go up in one transfer; states stay on the device, where the decoder reads them.

    Between steps a request's states are kept in its `result`, so that an aborted request leaves nothing behind.
    """

    def __init__(self, encoder: Encoder, device: Device, record: bool = True) -> None:
        super().__init__(device, record)
        self._encoder = encoder
        self._starts: dict[int, Tensor] = {}  # by the number of inputs

    def _launch(self, plan: StepPlan, transfer: Transfer) -> Outputs:
        count = len(plan.requests)
        x = self._inputs(plan) if plan.stage == 0 else torch.cat([request.result for request in plan.requests])
        if count not in self._starts:
            length = self._encoder.num_states
            self._starts[count] = upload_constant(
                np.arange(0, (count + 1) * length, length, dtype=np.int32), self._device.torch
            )
        run = partial(self._run, plan.stage, self._starts[count])
        states = run(x) if self._graphs is None else self._graphs.run((plan.stage, count), run, x)
        # Cloned: one request may outlive another, and the next pass overwrites the states of a graph.
        outputs = [part.clone() for part in states.split(self._encoder.num_states)]
        for request, output in zip(plan.requests, outputs, strict=True):
            request.result = output
        return lambda _: outputs

    def _inputs(self, plan: StepPlan) -> Tensor:
        """Return the inputs of stage 0; if the requests hold samples, compute features from these."""
        features, given = self._encoder.features, [request.inputs for request in plan.requests]
        if features is None:
            return upload_constant(torch.stack(given).numpy(), self._device.torch)
        target = self._device.torch
        samples = torch.zeros(len(given), features.num_samples, pin_memory=target.type == "cuda")
        for row, own in zip(samples, given, strict=True):
            row[: len(own)] = own
        return features.compute(samples.to(target, non_blocking=True))

    def _run(self, step: int, seq_start: Tensor, x: Tensor) -> Tensor:
        first = step * STAGES_PER_STEP
        for stage in range(first, min(first + STAGES_PER_STEP, self._encoder.num_stages)):
            x = self._encoder.run_stage(stage, x, seq_start)
        return x
