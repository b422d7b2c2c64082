"""Native emitter: for each kind of instruction, the call that adds it to a program of the extension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from antiphon.errors import UnrecordableError
from antiphon.ops.native import convolution, direct_convolution
from antiphon.ops.native.adapters import table_of
from antiphon.ops.native.attention import can_round, pages_of
from antiphon.ops.native.extension import available
from antiphon.ops.native.product import matrix_of
from antiphon.ops.native.program.layout import Layout
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.plan import BufferPlan, plan_buffers
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Traced
from antiphon.weights.weight import Weight

#: Name of a method of the extension's program, and its arguments.
Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Emitted:
    """Calls of the extension that build a recording's program, and the locations of its values."""

    plan: BufferPlan
    layout: Layout
    calls: tuple[Call, ...]


def emit(recording: Recording) -> Emitted:
    """Translate a recording for this backend. Raise `UnrecordableError` if an instruction has no kernel."""
    if not available():
        raise UnrecordableError("the native backend was not built on this machine")
    plan = plan_buffers(recording.instructions, recording.output)
    layout = Layout(recording, plan)
    return Emitted(plan, layout, tuple(_emit(instruction, layout) for instruction in recording.instructions))


def check(recording: Recording) -> Recording:
    """Return the recording. Raise `UnrecordableError` unless every instruction has a kernel in this backend."""
    emit(recording)
    return recording


def _emit(instruction: Instruction, layout: Layout) -> Call:
    emitter = EMITTERS.get(type(instruction))
    if emitter is None:
        raise UnrecordableError(f"{instruction.operation} has no native kernel that a program could run")
    for value in (*instruction.reads(), *instruction.writes()):
        if value.dtype.is_floating_point and value.dtype is not torch.float32:
            raise UnrecordableError(f"{instruction.operation} of {value.dtype}: native programs compute in float32")
    return emitter(instruction, layout)


def _matrix(weight: Weight, layout: Layout, what: str) -> int:
    """Return the address of the extension's matrix of a weight, and let the layout keep the matrix alive."""
    matrix = matrix_of(weight)
    if matrix is None:
        types = ", ".join(weight.bytes_by_type)
        raise UnrecordableError(f"{what} has a type that no native kernel reads: {types}")
    layout.kept.append(matrix)
    address: int = matrix.address
    return address


def _heads(layout: Layout, tensor: Traced) -> tuple[int, int, int, int]:
    """Return an operand [tokens, heads, head_dim] with its strides by token and by head."""
    return (*layout.operand(tensor), int(tensor.strides[0]), int(tensor.strides[1]))


def _row_strides(tensor: Traced | None) -> tuple[int, int]:
    if tensor is None:
        return (0, 0)
    strides = tensor.strides
    return (int(strides[0]), int(strides[1]) if len(strides) == 3 else 0)


def _bias_strides(bias: Traced | None) -> tuple[int, int]:
    return (0, 0) if bias is None else (int(bias.strides[0]), int(bias.strides[1]))


def _embed(i: program.EmbedInstruction, layout: Layout) -> Call:
    return "embed", (
        _matrix(i.matrix, layout, "an embedding"), layout.operand(i.ids), i.ids.dtype.itemsize == 8, i.scale,
        layout.operand(i.out), layout.extent(i.out.shape[0]),
    )  # fmt: skip


def _linear(i: program.LinearInstruction, layout: Layout) -> Call:
    return "linear", (
        _matrix(i.matrix, layout, "a linear layer"), layout.operand(i.x), i.x.strides[0], layout.operand(i.bias),
        *ACTIVATIONS[i.activation], layout.operand(i.residual), 0 if i.residual is None else i.residual.strides[0],
        layout.operand(i.out), i.out.strides[0], layout.extent(i.out.shape[0]),
    )  # fmt: skip


def _adapted_linear(i: program.AdaptedLinearInstruction, layout: Layout) -> Call:
    return "adapted_linear", (table_of(i.adapters), layout.operand(i.slots), *_linear(i, layout)[1])


def _norm(i: program.NormInstruction, layout: Layout) -> Call:
    shape = i.x.shape
    inner = shape[1] if len(shape) == 3 else 1
    return "norm", (
        i.centred, layout.operand(i.x), _row_strides(i.x), layout.operand(i.residual), _row_strides(i.residual), inner,
        shape[-1], layout.operand(i.gain), layout.operand(i.bias), i.eps, layout.operand(i.out),
        layout.operand(i.total), layout.extent(shape[0]),
    )  # fmt: skip


def _rotary(i: program.RotaryInstruction, layout: Layout) -> Call:
    return "rotary", (
        _heads(layout, i.q), _heads(layout, i.k), i.q.shape[1], i.k.shape[1], i.q.shape[2],
        layout.operand(i.positions), layout.operand(i.table), *i.table.shape, layout.operand(i.q_out),
        layout.operand(i.k_out), layout.extent(i.q.shape[0]),
    )  # fmt: skip


def _store_kv(i: program.StoreInstruction, layout: Layout) -> Call:
    return "store_kv", (
        pages_of(i.cache), _heads(layout, i.k), _heads(layout, i.v), layout.group(i.group), layout.extent(i.rows),
    )  # fmt: skip


def _prepare_heads(i: program.HeadsInstruction, layout: Layout) -> Call:
    return "heads", (
        pages_of(i.cache), _heads(layout, i.q), _heads(layout, i.k), _heads(layout, i.v), i.q.shape[1],
        layout.operand(i.q_gain), i.q_eps, layout.operand(i.k_gain), i.k_eps, layout.operand(i.positions),
        layout.operand(i.table), *i.table.shape, layout.group(i.group), layout.operand(i.q_out), layout.extent(i.rows),
    )  # fmt: skip


def _paged_attention(i: program.PagedAttentionInstruction, layout: Layout) -> Call:
    return "paged_attention", (
        pages_of(i.cache), _heads(layout, i.q), i.q.shape[1], layout.group(i.group), i.scale, i.causal, i.window or 0,
        i.sink_tokens, layout.operand(i.sinks), i.softcap or 0.0, layout.operand(i.bias), _bias_strides(i.bias),
        layout.operand(i.out), layout.extent(i.rows),
    )  # fmt: skip


def _attention(i: program.AttentionInstruction, layout: Layout) -> Call:
    heads, head_dim = i.q.shape[1], i.q.shape[2]
    rounded = i.rounded and can_round(int(head_dim), i.causal, i.bias)
    return "attention", (
        _heads(layout, i.q), _heads(layout, i.k), _heads(layout, i.v), heads, i.k.shape[1], head_dim,
        layout.operand(i.seq_start), i.scale, i.causal, layout.operand(i.bias), _bias_strides(i.bias), rounded,
        layout.operand(i.out), layout.extent(i.rows), layout.extent(i.seq_start.shape[0] - 1),
    )  # fmt: skip


def _gather_rows(i: program.GatherInstruction, layout: Layout) -> Call:
    return "gather_rows", (
        layout.operand(i.x), i.x.strides[0], i.x.shape[1], layout.operand(i.index), i.index.dtype.itemsize == 8,
        layout.operand(i.out), layout.extent(i.x.shape[0]), layout.extent(i.rows),
    )  # fmt: skip


def _add(i: program.AddInstruction, layout: Layout) -> Call:
    x_stride, y_stride = (tensor.strides[-2] if tensor.dim() > 1 else 0 for tensor in (i.x, i.y))
    return "add", (
        layout.operand(i.x), x_stride, layout.operand(i.y), y_stride, i.x.shape[-1], layout.operand(i.out),
        layout.extent(i.rows), layout.extent(i.y_rows), i.y.value.most_rows,
    )  # fmt: skip


def _segment_mean(i: program.SegmentMeanInstruction, layout: Layout) -> Call:
    return "segment_mean", (
        layout.operand(i.x), i.x.strides[0], i.x.shape[1], layout.operand(i.seq_start), layout.operand(i.out),
        layout.extent(i.x.shape[0]), layout.extent(i.rows),
    )  # fmt: skip


def _l2_normalize(i: program.UnitRowsInstruction, layout: Layout) -> Call:
    return "l2_normalize", (
        layout.operand(i.x), i.x.strides[0], i.x.shape[1], layout.operand(i.out), layout.extent(i.rows),
    )  # fmt: skip


def _conv1d(i: program.ConvolutionInstruction, layout: Layout) -> Call:
    weight, bias = i.filter.value.constant, None if i.bias is None else i.bias.value.constant
    assert weight is not None
    outputs, channels, kernel = weight.shape
    if not direct_convolution.supports(weight, bias, 1, 1, i.activation):
        raise UnrecordableError(f"a convolution with a weight of {tuple(weight.shape)} has no native kernel")
    if i.stride == 1 and (kernel == 1 or convolution.has_fewer_products(weight)):
        # Results must equal the operation's in every bit, and the operation uses PyTorch for these weights.
        raise UnrecordableError(f"a convolution with a weight of {tuple(weight.shape)} is computed by PyTorch")
    return "conv1d", (
        layout.constant(direct_convolution.panels(weight)), kernel, outputs, layout.operand(i.x), channels, i.stride,
        i.padding[0], layout.operand(i.bias), ACTIVATIONS[i.activation][0], layout.operand(i.out),
        layout.extent(i.x.shape[0]), layout.extent(i.x.shape[1]), layout.extent(i.out.shape[1]),
    )  # fmt: skip


#: Emitters by kind of instruction; a kind that is missing has no native kernel.
EMITTERS: dict[type[Instruction], Callable[[Any, Layout], Call]] = {
    program.EmbedInstruction: _embed,
    program.LinearInstruction: _linear,
    program.AdaptedLinearInstruction: _adapted_linear,
    program.NormInstruction: _norm,
    program.RotaryInstruction: _rotary,
    program.StoreInstruction: _store_kv,
    program.HeadsInstruction: _prepare_heads,
    program.PagedAttentionInstruction: _paged_attention,
    program.AttentionInstruction: _attention,
    program.GatherInstruction: _gather_rows,
    program.AddInstruction: _add,
    program.SegmentMeanInstruction: _segment_mean,
    program.UnitRowsInstruction: _l2_normalize,
    program.ConvolutionInstruction: _conv1d,
}
