"""Lowering of a recorded forward to the kernels of a decode step: one new token for each of a fixed number of rows.

A norm before a product is fused into the product. Up to `VECTOR_ROWS` rows, every program of the product computes the
norm. Up to `ROW_PRODUCT_ROWS`, the kernel that writes the residual stream also writes the stream times the norm's
weight, and the sums of its squares; the product divides by the root mean square. With more rows, a separate kernel adds
the residual and normalises, and a library multiplies. One kernel normalises, rotates and stores heads, and attends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.triton.kernel_launch import Call
from antiphon.ops.triton.kernels.rows.embedding import gather_scaled
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.triton.program.attention_lowering import lower_attention, lower_heads, lower_store
from antiphon.ops.triton.program.builder import StepBuilder
from antiphon.ops.triton.program.norm_lowering import leave_scaled, lower_norm, scaled_norm
from antiphon.ops.triton.program.product_lowering import lower_linear
from antiphon.ops.triton.quantised.launches import gather_launch
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix

#: Functions that add the launches of an instruction to a step, by the instruction's class.
Lowerings = Mapping[type[Instruction], Callable[[Any, Any], None]]


def lower(step: StepBuilder, lowerings: Lowerings | None = None) -> Tensor:
    """Add the launches of all instructions to the step, and return the tensor that will hold the result.

    Without `lowerings`, instructions are lowered as in a decode step.
    """
    recording, lowerings = step.recording, lowerings or _LOWERINGS
    for index, instruction in enumerate(recording.instructions):
        step.index = index
        if index not in step.fused:
            lowering = lowerings.get(type(instruction))
            if lowering is None:
                raise UnrecordableError(f"{instruction.operation} has no kernel in a step")
            lowering(step, instruction)
        step.release()
    if recording.output is None:
        raise UnrecordableError("a step gives logits")
    return step.tensors[id(step.readers.origin(recording.output))]


def _lower_embed(step: StepBuilder, i: program.EmbedInstruction) -> None:
    table = step.matrix(i.matrix)
    width = i.matrix.columns
    out = step.take(i.out.value, width, torch.float32)
    norm = scaled_norm(step, i.out.value)
    after = None if norm is None else leave_scaled(step, norm, width, 1)
    if not isinstance(table, Tensor):
        if not isinstance(table, QuantisedMatrix) or len(table.pieces) != 1:
            raise UnrecordableError("an embedding in fp8 or of several types has no kernel in a decode step")
        step.emit([gather_launch(table.pieces[0], step.whole(i.ids), out, step.rows, i.scale, after, step.card)])
        return
    gain, scaled, squares = (out, out, out) if after is None else (after.gain, after.scaled, after.squares)
    step.launch(
        "embed", gather_scaled, (step.rows,),
        (step.whole(i.ids), table, out, gain, scaled, squares, i.scale),
        {"WIDTH": width, "BLOCK": ceil_power(width), "SCALED": norm is not None,
         "ROWS": step.padded if norm is not None else 1,
         "PDL": step.card.dependent_launch},
    )  # fmt: skip


def _lower_add(step: StepBuilder, i: program.AddInstruction) -> None:
    x, y = step.whole(i.x), step.whole(i.y)
    out = step.take(i.out.value, int(i.out.shape[-1]), torch.float32)
    if x.shape != out.shape or y.shape != out.shape:
        raise UnrecordableError(f"a sum of {tuple(x.shape)} and {tuple(y.shape)} has no kernel in a decode step")
    step.launches.append(Call("add", torch.add, (x, y), {"out": out}))


def _lower_gather(_: StepBuilder, __: program.GatherInstruction) -> None:
    """Add nothing: in a decode step every row has logits."""


_LOWERINGS: Lowerings = {
    program.EmbedInstruction: _lower_embed,
    program.LinearInstruction: lower_linear,
    program.NormInstruction: lower_norm,
    program.HeadsInstruction: lower_heads,
    program.StoreInstruction: lower_store,
    program.PagedAttentionInstruction: lower_attention,
    program.AddInstruction: _lower_add,
    program.GatherInstruction: _lower_gather,
}
