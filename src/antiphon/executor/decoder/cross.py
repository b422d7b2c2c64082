"""Cross-attention in a step: fills the cross blocks of new requests, and observes attention to these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import RowSetup, StepPlan
from antiphon.executor.upload import upload
from antiphon.models.base.parts import CrossStates
from antiphon.ops import Batch, CacheKind, GroupBatch, KVCache

#: Maximum number of requests whose states become keys and values in one call.
FILLED_TOGETHER = 8


def fill_cross(plan: StepPlan, cross: CrossStates | None, cache: KVCache) -> None:
    """Write the encoder states of new requests to their cross blocks, several requests at a time."""
    setups = [setup for setup in plan.row_setups if setup.fills_cross and setup.request.row >= 0]
    if not setups:
        return
    assert cross is not None
    for first in range(0, len(setups), FILLED_TOGETHER):
        _fill(setups[first : first + FILLED_TOGETHER], cross, cache)


def _fill(setups: Sequence[RowSetup], cross: CrossStates, cache: KVCache) -> None:
    device = cache.arena.device
    put = partial(upload, device=device)
    lengths = np.array([setup.request.cross_tokens for setup in setups], dtype=np.int32)
    positions = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    query_start = put(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    groups: dict[str, GroupBatch] = {}
    for number, layout in enumerate(cache.layouts.values()):
        if layout.group.kind is not CacheKind.CROSS:
            continue
        size = layout.block_tokens
        tables = np.zeros((len(setups), -(-int(lengths.max()) // size)), dtype=np.int32)
        for row, setup in zip(tables, setups, strict=True):
            own = setup.tables[number][: len(row)]
            row[: len(own)] = own
        rows = np.repeat(np.arange(len(setups)), lengths)
        slots = tables[rows, positions // size].astype(np.int64) * size + positions % size
        groups[layout.group.name] = GroupBatch(put(slots), put(tables), put(lengths), query_start)
    batch = Batch(put(positions), query_start, put(np.zeros(0, dtype=np.int64)), groups=groups)
    states = [setup.request.inputs.to(device) for setup in setups]
    cross.store(states[0] if len(states) == 1 else torch.cat(states), batch, cache)


def forward_observing(
    plan: StepPlan, batch: Batch, cross: CrossStates | None, cache: KVCache, forward: Callable[[Batch], Tensor]
) -> tuple[Tensor, dict[int, Tensor]]:
    """Return the step's logits, and cross-attention [heads, tokens, states] by entry for requests that observe it.

    Both are on the device. `forward` runs steps in which no request observes its cross-attention.
    """
    observing = [entry for entry, request in enumerate(plan.requests) if request.observes]
    if not observing:
        return forward(batch), {}
    assert cross is not None
    logits, seen = cross.forward_aligned(batch, cache)
    weights = torch.cat(seen)  # [heads, tokens, states]
    starts = [0, *accumulate(plan.counts)]
    observed = {
        entry: weights[:, starts[entry] : starts[entry + 1], : plan.requests[entry].cross_tokens].clone()
        for entry in observing
    }
    return logits, observed
