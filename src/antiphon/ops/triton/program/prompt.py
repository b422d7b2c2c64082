"""Lowering of a recorded forward to the kernels of a step with chunks of prompts: many tokens of several requests.

The library multiplies. Four kernels do the rest: residual and norm; bias, activation and gate; norms, rotation and
store of heads; attention. What only rows with logits need is computed for these rows alone (`gather_early`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program import instructions as program
from antiphon.ops.program.dimension import as_dim
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Traced, Value
from antiphon.ops.triton.epilogue import finish_launch
from antiphon.ops.triton.kernel_launch import Call
from antiphon.ops.triton.kernels.rows.embedding import gather_scaled
from antiphon.ops.triton.launch import Card, ceil_power, row_warps
from antiphon.ops.triton.program.builder import DecodeInputs, StepBuilder
from antiphon.ops.triton.program.norm_lowering import launch_norm
from antiphon.ops.triton.program.product_lowering import multiply_rows
from antiphon.ops.triton.program.readers import Readers
from antiphon.ops.triton.program.workspace import StepWorkspace
from antiphon.ops.triton.quantised.launches import gather_launch
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix

#: Elements per program of a row-wise kernel: 16 for each of 128 threads, so that no two threads load the same element.
TILE_ELEMENTS = 2048


class PromptBuilder(StepBuilder):
    """Builder of a step of `tokens` tokens and `logits` rows of logits; `slots` are the tokens' by cache group."""

    def __init__(
        self, recording: Recording, tokens: int, logits: int, inputs: DecodeInputs, slots: Mapping[str, Tensor],
        workspace: StepWorkspace, compute_type: torch.dtype, card: Card,
    ) -> None:  # fmt: skip
        unused = inputs.table_rows
        super().__init__(recording, tokens, 1, inputs, workspace, unused, compute_type, card)
        self.padded, self.slots = tokens, slots
        self.readers = Readers(recording, is_decode=False)
        self._sizes = {"T": tokens, "L": logits, "R": len(inputs.table_rows)}
        #: Tiles of queries for attention, by the number of queries per tile.
        self.tiles: dict[int, Tensor] = {}

    def rows_of(self, value: Value) -> int:
        return as_dim(value.shape[0]).value(self._sizes)

    def take(self, value: Value, width: int, dtype: torch.dtype) -> Tensor:
        tensor = self.workspace.take((self.rows_of(value), width), dtype)
        self.tensors[id(value)] = tensor
        return self.hold(tensor, value)

    def hold_for_first(self, tensor: Tensor, value: Value) -> Tensor:
        """Keep a tensor allocated until the first reader of the value, and return the tensor."""
        self._held.setdefault(self.readers.indices(value)[0], []).append(tensor)
        return tensor

    def sum_of(self, residual: Traced, value: Value, width: int) -> Tensor:
        """Return the fp32 tensor of a sum, which is the residual's if nothing reads the residual later."""
        tensor = self.tensors.get(id(residual.value))
        same = tensor is not None and tensor.dtype is torch.float32 and tensor.shape == (self.rows_of(value), width)
        if same and not residual.offset and self.hand_over(residual.value, value):
            return self.tensors[id(value)]
        return self.take(value, width, torch.float32)


def lower_embed(step: PromptBuilder, i: program.EmbedInstruction) -> None:
    table, width = step.matrix(i.matrix), i.matrix.columns
    out = step.take(i.out.value, width, torch.float32)
    if isinstance(table, Tensor):
        _gather(step, "embed", step.whole(i.ids), table, out, i.scale)
    elif isinstance(table, QuantisedMatrix) and len(table.pieces) == 1:
        ordinary = replace(step.card, capability=80)  # without dependent launch
        step.emit([gather_launch(table.pieces[0], step.whole(i.ids), out, step.rows, i.scale, None, ordinary)])
    else:
        raise UnrecordableError("an embedding in fp8 or of several types has no kernel in a step")


def lower_gather(step: PromptBuilder, i: program.GatherInstruction) -> None:
    x = step.whole(i.x)
    _gather(step, "gather", step.whole(i.index), x, step.take(i.out.value, x.shape[1], x.dtype), 1.0)


def _gather(step: PromptBuilder, name: str, ids: Tensor, table: Tensor, out: Tensor, scale: float) -> None:
    rows, width = out.shape
    step.launch(
        name, gather_scaled, (rows,), (ids, table, out, out, out, out, scale),
        {"WIDTH": width, "BLOCK": ceil_power(width), "SCALED": False, "ROWS": 1, "PDL": False},
        warps=row_warps(width),
    )  # fmt: skip


def lower_linear(step: PromptBuilder, i: program.LinearInstruction) -> None:
    """Lower a product; if a norm follows the sum with the residual, the norm's kernel adds the residual."""
    x, matrix = step.cast(step.whole(i.x)), step.matrix(i.matrix)
    rows, wide = step.rows_of(i.out.value), i.matrix.rows
    gated = i.activation.endswith("_gate")
    columns = wide // 2 if gated else wide
    is_plain = i.activation == "none" and i.bias is None
    is_output = None in step.readers.of(i.out.value)
    if is_plain and i.residual is None:
        dtype = torch.float32 if is_output else step.compute_type
        multiply_rows(step, x, matrix, step.take(i.out.value, columns, dtype))
        return
    if is_plain and i.residual is not None and _is_normed(step.readers.of(i.out.value)[0], i.out.value):
        product = step.hold_for_first(step.workspace.take((rows, columns), step.compute_type), i.out.value)
        multiply_rows(step, x, matrix, product)
        residual = step.tensor(i.residual)
        total = step.sum_of(i.residual, i.out.value, columns)
        if total is not residual:
            step.extend(i.residual.value, i.out.value)
        step.sums[id(i.out.value)] = (product, i.residual)
        return
    product = step.scratch((rows, wide), step.compute_type)
    multiply_rows(step, x, matrix, product)
    added = step.optional(i.residual)
    if i.residual is not None:
        out = step.sum_of(i.residual, i.out.value, columns)
    else:
        out = step.take(i.out.value, columns, torch.float32 if is_output else step.compute_type)
    step.emit([finish_launch(product, step.optional(i.bias), i.activation, added, out, rows)])


def _is_normed(reader: Instruction | None, value: Value) -> bool:
    """Return whether a reader is a norm of the value without another residual."""
    return isinstance(reader, program.NormInstruction) and reader.x.value is value and reader.residual is None


def lower_norm(step: PromptBuilder, i: program.NormInstruction) -> None:
    block = ceil_power(int(i.x.shape[-1]))
    together = max(1, TILE_ELEMENTS // block)
    launch_norm(step, i, together, row_warps(together * block), early=False)


def lower_add(step: PromptBuilder, i: program.AddInstruction) -> None:
    x, y = step.whole(i.x), step.whole(i.y)
    shape = (step.rows_of(i.out.value), int(i.out.shape[-1]))
    if x.shape != shape or y.shape != shape:
        raise UnrecordableError(f"a sum of {tuple(x.shape)} and {tuple(y.shape)} has no kernel in a step")
    out = step.sum_of(i.y, i.out.value, shape[1])
    step.launches.append(Call("add", torch.add, (x, y), {"out": out}))
