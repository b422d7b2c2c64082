"""`Program`, a recording as a program of the native extension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from antiphon.ops.batch import GroupBatch
from antiphon.ops.native.attention import group_tables
from antiphon.ops.native.extension import extension
from antiphon.ops.native.program.emit import emit
from antiphon.ops.program.dimension import Dim, Size
from antiphon.ops.program.profile import Figures
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Value
from antiphon.ops.threads import default_threads


class Program:
    """Native program of a recording. Results equal the recorded forward's in every bit, for any sizes.

    The program keeps everything that its instructions read alive. Several threads may run it at once.
    """

    def __init__(self, recording: Recording, threads: int | None = None, variant: int = 0) -> None:
        self.recording = recording
        self.threads = threads or default_threads()
        self.variant = variant
        emitted = emit(recording)
        self.plan, layout = emitted.plan, emitted.layout
        self.native = extension().Program(
            layout.num_addresses,
            [(*layout.symbols(area.symbols), area.bytes) for area in self.plan.areas],
            [self.plan.locations[id(value)] for value in self.plan.values],
            [constant.data_ptr() for constant in layout.constants],
        )
        for method, arguments in emitted.calls:
            getattr(self.native, method)(*arguments)
        self._kept = (layout.constants, layout.kept)
        self._bindings = list(_bindings(recording))
        #: Seconds that the last run spent in native code.
        self.native_seconds = 0.0

    def run(
        self, inputs: Mapping[str, Tensor], groups: Mapping[str, GroupBatch] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Run the forward once. `out`, if given, is contiguous fp32 with room for the result, which is a view of it."""
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
        """Return the bytes of all buffers for the symbols' values."""
        size: int = self.native.workspace_bytes([symbols[name] for name in self.recording.symbols])
        return size

    # -- time ---------------------------------------------------------------------------------------------------

    def profile(self, on: bool) -> None:
        """Turn the timing of every instruction on or off for later runs."""
        self.native.profile(on)

    def profiles(self) -> list[Figures]:
        """Return the figures of each instruction over all profiled runs."""
        found: list[Figures] = self.native.profiles()
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
    """Yield for each symbol an input size that determines it: (input, dimension, symbol, factor, constant)."""
    for number, symbol in enumerate(recording.symbols):
        yield next(
            (index, dim, number, size.coefficient, size.constant)
            for index, value in enumerate(recording.inputs)
            for dim, size in enumerate(value.shape)
            if isinstance(size, Dim) and size.symbols == (symbol,)
        )
