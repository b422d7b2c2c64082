"""`MeasuredStep`: the decode step of a model on a device, with requests that exist for it alone, and its times."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch

from antiphon.errors import UnsupportedError
from antiphon.executor.device.buckets import split_count
from antiphon.executor.device.graphs import step_rows
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import CacheKind, CacheLayout, Device, KVCache, allocate_arena
from antiphon.ops.cache import OFFSET_UNIT
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.program.costs import LaunchCost, launch_costs
from antiphon.ops.triton.program.launch import Call, Launch
from antiphon.ops.triton.program.step import DecodeStep, StepMemory, step_bytes

REPEATS = 20
#: Clock cycles that the card is kept busy while the host launches a step: some 20 ms.
BUSY_CYCLES = 40_000_000


class MeasuredStep:
    """A step that gives each of `rows` requests a token after `context` tokens. The pages hold zeros.

    The weights are on the device. `UnrecordableError` says why a model has no such step.
    """

    def __init__(
        self, decoder: TokenDecoder, device: Device, page_type: torch.dtype, rows: int, context: int, vocab_size: int
    ) -> None:
        self._device, self._context = device, context
        self._rows, place = rows, device.torch
        layouts = [CacheLayout(group, key_dtype=page_type, value_dtype=page_type) for group in decoder.cache_groups]
        if device.stream is not None:
            torch.cuda.synchronize(place)  # weights were made on another stream than the step's
        with torch.inference_mode(), self._stream():
            self._store = DeviceRows(rows, layouts, [context + 1] * len(layouts), place)
            arena = allocate_arena(sum(self._num_blocks(layout) * layout.block_bytes for layout in layouts), place)
            self._fill_tables(layouts)
            self.recording = make_recording(decoder.step(KVCache(arena, layouts, decoder.key_balance)))
            found = step_rows(self._store)
            heads = [layout.group.num_kv_heads for layout in layouts]
            size = (rows, split_count(rows, min(heads), context + 1), found)
            on = card(place)
            needed = step_bytes(self.recording, *size, device.compute_type, vocab_size, on)
            memory = StepMemory.allocate(rows, needed, max(1 << 14, rows * max(heads)), place)
            memory.rows.copy_(torch.arange(rows, dtype=torch.int32))
            self._step = DecodeStep(self.recording, *size, memory, device.compute_type, vocab_size, on)

    @property
    def launches(self) -> list[Launch | Call]:
        return self._step.launches

    def costs(self) -> list[LaunchCost]:
        """Of each launch."""
        return list(launch_costs(self.recording, self.launches, self._rows, self._context))

    def run(self) -> torch.Tensor:
        """Compute the step as it is launched kernel by kernel; the logits."""
        with torch.inference_mode(), self._stream():
            self._begin()
            self._step.run()
        return self._step.logits[: self._rows]

    def launch_seconds(self) -> list[float]:
        """Of each launch by the card's clock: the median of some steps. No kernel starts before the last has ended."""
        self.run()  # compiles the kernels
        times = [self._timed([launch.__call__ for launch in self.launches]) for _ in range(REPEATS)]
        return [statistics.median(own) for own in zip(*times, strict=True)]

    def graph_seconds(self) -> float:
        """Of the whole step as one CUDA graph."""
        self.run()
        with torch.inference_mode(), self._stream():
            graph = self._step.capture(torch.cuda.graph_pool_handle())
        return statistics.median(self._timed([graph.replay])[0] for _ in range(REPEATS))

    def _timed(self, calls: list[Callable[[], object]]) -> list[float]:
        """Seconds of each call. The card is busy until the host has launched them, so that it never waits for it."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(calls) + 1)]
        with torch.inference_mode(), self._stream():
            self._begin()
            torch.cuda._sleep(BUSY_CYCLES)
            events[0].record()
            for call, event in zip(calls, events[1:], strict=True):
                call()
                event.record()
            events[-1].synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in pairwise(events)]

    def _begin(self) -> None:
        """Every step makes its rows longer."""
        self._store.length.fill_(self._context)

    def _num_blocks(self, layout: CacheLayout) -> int:
        if layout.group.kind is CacheKind.CROSS:
            raise UnsupportedError("the step of a decoder that reads an encoder is not measured")
        return self._rows * (self._context // layout.block_tokens + 1)

    def _fill_tables(self, layouts: list[CacheLayout]) -> None:
        """Give every row blocks of its own."""
        first = 0
        for layout, table in zip(layouts, self._store.tables, strict=True):
            count, size = self._num_blocks(layout), layout.block_bytes // OFFSET_UNIT
            entries = first + size * torch.arange(count, dtype=torch.int32)
            table[:, : count // self._rows] = entries.view(self._rows, -1).to(table.device)
            first += count * size

    def _stream(self) -> AbstractContextManager[Any]:
        stream = self._device.stream
        return nullcontext() if stream is None else torch.cuda.stream(stream)
