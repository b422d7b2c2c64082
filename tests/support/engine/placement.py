"""The meta device, and a search for a model's tensors on other devices."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor

from antiphon.models.base.model import Model
from antiphon.ops import Device, active_backend
from antiphon.ops.device import DeviceLimits
from antiphon.runtime.loading.weight_forms import LoadReport, prepare

_ELSEWHERE = (type, ModuleType, BuiltinFunctionType)


def meta_device(compute_type: torch.dtype = torch.bfloat16) -> Device:
    """Return a meta device: its tensors have shapes and types, but no memory."""
    return Device(torch.device("meta"), active_backend("meta"), compute_type, DeviceLimits("none", 1 << 40))


def tensors_below(root: object) -> list[Tensor]:
    """Return every tensor reachable from an object through attributes, containers and closures."""
    found: list[Tensor] = []
    seen: set[int] = set()
    kept: list[Any] = [root]  # also keeps ids from being reused
    for value in kept:
        if id(value) in seen or isinstance(value, _ELSEWHERE):
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, FunctionType):
            kept.extend(cell.cell_contents for cell in value.__closure__ or ())
        else:
            kept.extend(gc.get_referents(value))
    return found


def stray_tensors(model: Model) -> list[str]:
    """Move a model to the meta device; describe its tensors still on the CPU, including its parts' and its cache's."""
    prepare(model, LoadReport(), device=meta_device())
    groups = [part.cache_groups for part in model.parts() if hasattr(part, "cache_groups")]
    balances = [model.key_balance(g.name, 0) for g in sum(groups, ()) if hasattr(model, "key_balance")]
    tensors = tensors_below([model, model.parts(), model.weight_rules(), balances])
    assert tensors
    return [f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in tensors if tensor.device.type != "meta"]
