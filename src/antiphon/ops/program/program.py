"""`Program`: a recording told to the native extension, and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from antiphon.ops.batch import GroupBatch
from antiphon.ops.native.attention import group_tables
from antiphon.ops.native.extension import extension
from antiphon.ops.program.dimension import Dim, Size, as_dim
from antiphon.ops.program.plan import BufferPlan, plan_buffers
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.ops.threads import default_threads


class _Layout:
    """Numbers of values: inputs, then the output, then buffers, then constants."""

    def __init__(self, recording: Recording, plan: BufferPlan) -> None:
        self._symbols = recording.symbols
        self._groups = recording.groups
        addressed = [*recording.inputs, *([] if recording.output is None else [recording.output])]
        self.num_addresses = len(addressed)
        constants = {id(v): v for i in recording.instructions for v in i.reads() if v.kind is Kind.CONSTANT}
        self.constants = list(constants.values())
        self._numbers = {id(value): n for n, value in enumerate([*addressed, *plan.values, *self.constants])}

    def place(self, tensor: Traced | None) -> tuple[int, int]:
        if tensor is None:
            return (-1, 0)
        return (self._numbers[id(tensor.value)], tensor.offset * tensor.dtype.itemsize)

    def extent(self, size: Size) -> tuple[int, int, int, int]:
        dim = as_dim(size)
        return (dim.coefficient if dim.symbols else 0, *self.symbols(dim.symbols), dim.constant)

    def symbols(self, names: tuple[str, ...]) -> tuple[int, int]:
        numbers = [self._symbols.index(name) for name in names]
        first, second = (*numbers, -1, -1)[:2]
        return first, second

    def group(self, name: str) -> int:
        return self._groups.index(name)


class Program:
    """Runs a recording. Results are those of the recorded forward, bit for bit, for any sizes.

    It keeps everything alive that its instructions read. Runs of several threads do not disturb each other.
    """

    def __init__(self, recording: Recording, threads: int | None = None, variant: int = 0) -> None:
        self.recording = recording
        self.plan = plan_buffers(recording.instructions, recording.output)
        self.threads = threads or default_threads()
        self.variant = variant
        layout = _Layout(recording, self.plan)
        self.native = extension().Program(
            layout.num_addresses,
            [(*layout.symbols(area.symbols), area.bytes) for area in self.plan.areas],
            [self.plan.places[id(value)] for value in self.plan.values],
            [value.constant.data_ptr() for value in layout.constants if value.constant is not None],
        )
        for instruction in recording.instructions:
            instruction.emit(self.native, layout)
        self._bindings = list(_bindings(recording))
        #: Seconds that the last run spent in native code.
        self.native_seconds = 0.0

    def run(
        self, inputs: Mapping[str, Tensor], groups: Mapping[str, GroupBatch] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """One forward. `out`, where given, is contiguous fp32 with room for the result, which is a view of it."""
        recording, symbols = self.recording, [0] * len(self.recording.symbols)
        tensors = []
        for value in recording.inputs:
            tensor = inputs[value.name]
            if tensor.dtype is not value.dtype or not tensor.is_contiguous():
                tensor = tensor.to(value.dtype).contiguous()
            tensors.append(tensor)
        for index, dim, symbol, factor, constant in self._bindings:
            symbols[symbol] = (tensors[index].shape[dim] - constant) // factor
        by_name = dict(zip(recording.symbols, symbols, strict=True))
        for value, tensor in zip(recording.inputs, tensors, strict=True):
            expected = tuple(_number(size, by_name) for size in value.shape)
            if tensor.shape != expected:
                raise ValueError(f"{value.name} is {tuple(tensor.shape)}, not {expected}")
        addresses = [tensor.data_ptr() for tensor in tensors]
        result = torch.empty(0)
        if recording.output is not None:
            result = _room(recording.output, by_name, out)
            addresses.append(result.data_ptr())
        tables = [group_tables(groups[name]) for name in recording.groups] if groups is not None else []
        rows = [(*table.slots, *table.tables, *table.requests) for table in tables]
        self.native_seconds = 1e-9 * self.native.run(symbols, addresses, rows, self.threads, self.variant)
        return result

    def workspace_bytes(self, symbols: Mapping[str, int]) -> int:
        """Bytes of all buffers for these sizes."""
        size: int = self.native.workspace_bytes([symbols[name] for name in self.recording.symbols])
        return size

    # -- time ---------------------------------------------------------------------------------------------------

    def profile(self, on: bool) -> None:
        """Whether runs from now on take the time of every instruction."""
        self.native.profile(on)

    def profiles(self) -> list[tuple[int, int, int, int, int]]:
        """Of each instruction: calls, nanoseconds, rows, pairs of query and key, and keys, over all profiled runs."""
        found: list[tuple[int, int, int, int, int]] = self.native.profiles()
        return found


def _number(size: Size, symbols: Mapping[str, int]) -> int:
    return size.value(symbols) if isinstance(size, Dim) else size


def _room(output: Value, symbols: Mapping[str, int], out: Tensor | None) -> Tensor:
    shape = [_number(size, symbols) for size in output.shape]
    if out is None:
        return torch.empty(shape)
    count = 1
    for size in shape:
        count *= size
    return out.view(-1)[:count].view(shape)


def _bindings(recording: Recording) -> Any:
    """For each symbol, an input whose size tells it: (input, dimension, symbol, factor, constant)."""
    for number, symbol in enumerate(recording.symbols):
        yield next(
            (index, dim, number, size.coefficient, size.constant)
            for index, value in enumerate(recording.inputs)
            for dim, size in enumerate(value.shape)
            if isinstance(size, Dim) and size.symbols == (symbol,)
        )
