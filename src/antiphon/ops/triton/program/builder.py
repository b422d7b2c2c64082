"""`StepBuilder`: the launches of a decode step while they are collected, and the tensors of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.ops.triton.kernel_launch import Call, Launch
from antiphon.ops.triton.launch import Card, ceil_power
from antiphon.ops.triton.normed import Normed
from antiphon.ops.triton.program.readers import Readers
from antiphon.ops.triton.program.tiles import ROW_PRODUCT_ROWS, VECTOR_ROWS
from antiphon.ops.triton.program.workspace import StepWorkspace
from antiphon.ops.triton.quantised.prepare import PreparedWeight
from antiphon.ops.triton.weights import form_of
from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class GroupRows:
    """Block tables of a cache group: row r's table begins at tables[r * stride]."""

    tables: Tensor  # int32, flat
    stride: int
    seq_lens: Tensor  # int32 [rows], the new token included


@dataclass(frozen=True)
class DecodeInputs:
    """Inputs of a step: the recording's inputs by name, and each request's row of the block tables."""

    tensors: Mapping[str, Tensor]
    table_rows: Tensor  # int32 [rows]
    groups: Mapping[str, GroupRows]


def padded_rows(rows: int) -> int:
    """Return the rows to allocate; kernels on tensor cores need a power of two of at least 16."""
    if rows <= VECTOR_ROWS:
        return ceil_power(rows)
    return max(16, ceil_power(rows)) if rows <= ROW_PRODUCT_ROWS else rows


class StepBuilder:
    """Builder of the launches of one step of `rows` requests.

    `index` is the instruction being lowered. Instructions in `fused` are computed by the launches of others.
    """

    def __init__(
        self,
        recording: Recording,
        rows: int,
        splits: int,
        inputs: DecodeInputs,
        workspace: StepWorkspace,
        counters: Tensor,
        compute_type: torch.dtype,
        card: Card,
        slots: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Start without launches; `slots` holds the slots of the rows' tokens by cache group.

        With `slots`, several rows may hold tokens of one request: all are stored before any row attends.
        """
        self.recording, self.rows, self.splits = recording, rows, splits
        self.chained_slots = slots
        self.inputs, self.workspace, self.counters = inputs, workspace, counters
        self.compute_type, self.card = compute_type, card
        self.padded = padded_rows(rows)
        self.readers = Readers(recording)
        self.launches: list[Launch | Call] = []
        self.tensors: dict[int, Tensor] = {}  # by id of the value
        self.normed: dict[int, Normed] = {}
        #: Tensors that their writers left packed, by id of the value.
        self.packed: dict[int, Tensor] = {}
        #: Products whose residual the next norm adds, each with the residual, by id of the sum's value.
        self.sums: dict[int, tuple[Tensor, Traced]] = {}
        self.index = 0
        self.fused: set[int] = set()
        self._held: dict[int, list[Tensor]] = {}

    # -- values ------------------------------------------------------------------------------------------------------

    def take(self, value: Value, width: int, dtype: torch.dtype) -> Tensor:
        """Allocate the tensor [padded rows, width] of a value."""
        tensor = self.workspace.take((self.padded, width), dtype)
        self.tensors[id(value)] = tensor
        return self.hold(tensor, value)

    def hold(self, tensor: Tensor, value: Value) -> Tensor:
        """Keep a tensor allocated until the last reader of the value, and return the tensor."""
        self._held.setdefault(self.readers.last(value, self.index), []).append(tensor)
        return tensor

    def scratch(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """Allocate a tensor that only the current instruction uses."""
        tensor = self.workspace.take(shape, dtype)
        self._held.setdefault(self.index, []).append(tensor)
        return tensor

    def extend(self, value: Value, until: Value) -> None:
        """Keep a value's tensor, due to be freed, until the last reader of `until`."""
        kept = self.tensors[id(self.readers.origin(value))]
        for index, tensors in self._held.items():
            if any(tensor is kept for tensor in tensors):
                later = max(index, self.readers.last(until, self.index))
                self._held[index] = [tensor for tensor in tensors if tensor is not kept]
                self._held.setdefault(later, []).append(kept)
                return

    def hand_over(self, value: Value, to: Value) -> bool:
        """Give the memory of `value` to `to`, a value of the same shape and type.

        Return False, and change nothing, if an instruction after the current one reads `value`.
        """
        tensor = self.tensors.get(id(value))
        held = self._held.get(self.index, [])
        if tensor is None or not any(kept is tensor for kept in held):
            return False
        self._held[self.index] = [kept for kept in held if kept is not tensor]
        self.tensors[id(to)] = self.hold(tensor, to)
        return True

    def release(self) -> None:
        """Free the memory of values that no instruction after the current one reads."""
        for tensor in self._held.pop(self.index, ()):
            self.workspace.give_back(tensor)

    def tensor(self, traced: Traced) -> Tensor:
        """Return the tensor of the value that `traced` is a view of; offset and strides of the view are not applied."""
        value = self.readers.origin(traced.value)
        if value.constant is not None:
            return value.constant
        if value.kind is Kind.INPUT:
            return self.inputs.tensors[value.name]
        if id(value) in self.normed:
            raise UnrecordableError("a norm inside a product is read by something else")
        return self.tensors[id(value)]

    def whole(self, traced: Traced) -> Tensor:
        if traced.offset:
            raise UnrecordableError(f"a product of a part of {traced.text} has no kernel in a decode step")
        return self.tensor(traced)

    def side(self, tensor: Traced | None, otherwise: Tensor) -> Tensor:
        """Return an optional operand's tensor; without the operand, `otherwise`, which the kernel does not read."""
        return otherwise if tensor is None else self.tensor(tensor)

    def optional(self, tensor: Traced | None) -> Tensor | None:
        return None if tensor is None else self.tensor(tensor)

    def rows_of(self, value: Value) -> int:
        """Return the number of rows of a value, without padding."""
        return self.rows

    def sum_of(self, residual: Traced, value: Value, width: int) -> Tensor:
        """Allocate the fp32 tensor of `value`, the sum of a residual and something else."""
        return self.take(value, width, torch.float32)

    def matrix(self, weight: Weight) -> Tensor | PreparedWeight:
        matrix = form_of(weight, self.inputs.table_rows.device)
        if not isinstance(matrix, Tensor):
            if self.compute_type is torch.float32:
                raise UnrecordableError("products with quantised weights have kernels for 16-bit activations")
        elif matrix.dtype is not self.compute_type:
            raise UnrecordableError(f"a weight is in {matrix.dtype}, and the step computes in {self.compute_type}")
        return matrix

    def cast(self, x: Tensor) -> Tensor:
        """Return x in the compute type, converted into scratch memory if it has another type."""
        if x.dtype is self.compute_type:
            return x
        out = self.scratch(x.shape, self.compute_type)
        self.launches.append(Call("cast", out.copy_, (x,)))
        return out

    # -- launches ----------------------------------------------------------------------------------------------------

    def launch(
        self, name: str, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any],
        warps: int = 4, stages: int = 1, weight_bytes: int = 0,
    ) -> None:  # fmt: skip
        self.emit([Launch(name, kernel, grid, arguments, constants, warps, stages, weight_bytes=weight_bytes)])

    def emit(self, launches: Sequence[Launch | Call]) -> None:
        """Add launches; kernels with PDL may start before the previous kernel has ended.

        The step's first kernel does not: it waits for all earlier work, so that later kernels may read the step's
        inputs before they wait. A kernel without PDL never waits for the previous kernel, so it must not start early.
        """
        for launch in launches:
            if isinstance(launch, Launch) and launch.constants.get("PDL", False) and self.launches:
                launch = replace(launch, dependent=True)
            self.launches.append(launch)
