"""`SwapPool`: copies of blocks within the arena, and to and from host memory."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.engine.plan import BlockCopy, StepPlan, SwapOut
from antiphon.ops.cache import OFFSET_UNIT


class SwapPool:
    """Moves blocks within the arena, and to and from host memory, which it keeps by key.

    Copies run in the order of the plans; on a GPU, on the current stream.
    """

    def __init__(self, arena: Tensor) -> None:
        self._arena = arena
        self._saved: dict[str, list[Tensor]] = {}

    def move(self, plan: StepPlan) -> None:
        """Copy the plan's blocks in its order, without waiting for the device, and free the keys that it drops."""
        for move in plan.moves:
            if isinstance(move, BlockCopy):
                self._span(move.target, move.num_bytes).copy_(self._span(move.source, move.num_bytes))
            elif isinstance(move, SwapOut):
                self._saved[move.key] = [self._save(self._span(*span)) for span in move.spans]
            else:
                for span, data in zip(move.spans, self._saved.pop(move.key), strict=True):
                    self._span(*span).copy_(data, non_blocking=True)
        for key in plan.dropped_keys:
            self._saved.pop(key, None)

    def _span(self, entry: int, num_bytes: int) -> Tensor:
        return self._arena[entry * OFFSET_UNIT : entry * OFFSET_UNIT + num_bytes]

    def _save(self, span: Tensor) -> Tensor:
        if not span.is_cuda:
            return span.clone()
        saved = torch.empty(span.shape, dtype=span.dtype, pin_memory=True)
        return saved.copy_(span, non_blocking=True)

    @property
    def num_bytes(self) -> int:
        return sum(data.numel() for saved in self._saved.values() for data in saved)

    def clear(self) -> None:
        self._saved.clear()
