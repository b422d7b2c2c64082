"""Weights of a model that is not loaded, with the sizes that they would have on a machine."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from antiphon.models.base.model import Model
from antiphon.ops.native.packing import planned_forms
from antiphon.ops.triton.quantised.planned import planned_bytes
from antiphon.runtime.analysis.machine import Machine
from antiphon.runtime.loading.weight_forms import GPU_BACKEND, WeightOptions, WeightTargets
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

#: Key among a weight's packed forms, for a form without content.
PLANNED = "planned"


@dataclass(frozen=True)
class PlannedForm:
    """Form that a weight would get: its bytes, and whether its products round their input to int8."""

    nbytes: int
    is_packed: bool


def plan_weights(model: Model, machine: Machine, options: WeightOptions) -> None:
    """Give every weight the size that loading would give it. Afterwards the model can only be recorded."""
    device_type = "cpu" if machine.is_cpu else "cuda"
    targets = WeightTargets(model.weight_rules(), options, machine.backend, device_type)
    dtype = machine.compute_type if model.takes_compute_type else torch.float32
    for weight in model.weights():
        weight.packed[PLANNED] = _planned(weight, machine.backend, options.repack, targets(weight), dtype)


def _planned(weight: Weight, backend: str, repack: bool, target: TensorType | None, dtype: torch.dtype) -> PlannedForm:
    if backend == GPU_BACKEND:
        return PlannedForm(planned_bytes(weight, target, dtype), is_packed=False)
    if backend == "native":
        forms = planned_forms(weight, repack, target)
        is_packed = any(form.packed or form.quantized is TensorType.I8 for form in forms)
        return PlannedForm(sum(form.resident_bytes for form in forms), is_packed)
    return PlannedForm(weight.rows * weight.columns * torch.bfloat16.itemsize, is_packed=False)  # decoded once
