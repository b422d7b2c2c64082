"""The C++ backend for CPUs: products with weights in their encoded form. What it lacks, the reference does."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from antiphon.ops import reference
from antiphon.ops.types import Activation
from antiphon.weights.dequantize import iq_grid
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

_extension: ModuleType | None
try:
    _extension = import_module("antiphon.ops._native")
except ImportError:  # installed without a compiler
    _extension = None

_WITH_CODEBOOK = frozenset(
    {TensorType.IQ2_XXS, TensorType.IQ2_XS, TensorType.IQ2_S, TensorType.IQ3_XXS, TensorType.IQ3_S}
)


def available() -> bool:
    """Whether the extension was built for this installation."""
    return _extension is not None


def variants() -> list[str]:
    """The instruction sets whose kernels this processor can run, the best first; empty without the extension."""
    return _extension.variants() if _extension is not None else []


@cache
def supports_type(type: TensorType) -> bool:
    return _extension is not None and _extension.supports(int(type))


def supports(weight: Weight) -> bool:
    """Whether `matmul` and `take_rows` can read every part of the weight."""
    return bool(weight.parts) and all(supports_type(part.type) and part.data.is_cpu for part in weight.parts)


@cache
def default_threads() -> int:
    """One thread for each physical core that this process may run on, within its control group's quota."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        try:
            cores.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(cpu))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(len(cores), round(int(quota) / int(period))))
    except (OSError, ValueError):  # no control group, or "max"
        return max(1, len(cores))


def matmul(
    x: Tensor, weight: Weight, out: Tensor | None = None, threads: int | None = None, variant: int = 0
) -> Tensor:
    """x [T, K] · weightᵀ → fp32 [T, N], accumulated in fp32; `supports(weight)` must hold.

    A row of the result depends on its row of x alone: not on T, nor on the number of threads. `out`, where given,
    is fp32 [T, N] with contiguous rows. `variant` counts in `variants()`.
    """
    assert _extension is not None
    if x.dim() != 2 or x.shape[1] != weight.columns or not x.is_cpu:
        raise ValueError(f"x is {tuple(x.shape)} on {x.device}; the weight needs [T, {weight.columns}] on the CPU")
    x = x.to(torch.float32).contiguous()
    tokens = x.shape[0]
    if out is None:
        out = torch.empty(tokens, weight.rows)
    elif out.shape != (tokens, weight.rows) or out.dtype != torch.float32 or (weight.rows > 1 and out.stride(1) != 1):
        shape = (tokens, weight.rows)
        raise ValueError(f"out is {out.dtype} {tuple(out.shape)}, not float32 {shape} with contiguous rows")
    threads = threads or default_threads()
    address, stride = out.data_ptr(), out.stride(0)
    for part in weight.parts:
        _extension.linear(
            part.type, part.data.data_ptr(), part.data.shape[1], part.rows, weight.columns, _codebook(part.type),
            x.data_ptr(), tokens, address, stride, threads, variant,
        )  # fmt: skip
        address += 4 * part.rows
    return out


def take_rows(weight: Weight, ids: Tensor, variant: int = 0) -> Tensor:
    """The weight's rows ids [T], decoded → fp32 [T, K]; `supports(weight)` must hold."""
    assert _extension is not None
    ids = ids.to(torch.int64).contiguous()
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < weight.rows:
        raise ValueError(f"ids {int(ids.min())} to {int(ids.max())} do not lie within the weight's {weight.rows} rows")
    if len(weight.parts) == 1:
        return _decode(weight.parts[0], weight.columns, ids, variant)
    out = torch.empty(len(ids), weight.columns)
    start = 0
    for part in weight.parts:
        mine = (ids >= start) & (ids < start + part.rows)
        out[mine] = _decode(part, weight.columns, ids[mine] - start, variant)
        start += part.rows
    return out


def embed(ids: Tensor, weight: Weight, scale: float = 1.0) -> Tensor:
    if not supports(weight):
        return reference.embed(ids, weight, scale)
    rows = take_rows(weight, ids)
    return rows.mul_(scale) if scale != 1.0 else rows


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
) -> Tensor:
    if not supports(weight):
        return reference.linear(x, weight, bias, activation, residual)
    return reference.finish_linear(matmul(x, weight).to(x.dtype), bias, activation, residual)


def _decode(part: WeightPart, columns: int, ids: Tensor, variant: int) -> Tensor:
    assert _extension is not None
    out = torch.empty(len(ids), columns)
    _extension.dequantize_rows(
        part.type, part.data.data_ptr(), part.data.shape[1], columns, _codebook(part.type),
        ids.data_ptr(), len(ids), out.data_ptr(), variant,
    )  # fmt: skip
    return out


def _codebook(type: TensorType) -> int:
    """The address of an IQ type's codebook, which `iq_grid` keeps alive; 0 for other types."""
    return iq_grid(type).data_ptr() if type in _WITH_CODEBOOK else 0
