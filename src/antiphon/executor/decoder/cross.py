"""Cross-attention in a step: the cross blocks of new requests are filled, and attention to them is observed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.upload import upload
from antiphon.models.base.parts import CrossStates
from antiphon.ops import Batch, CacheKind, GroupBatch, KVCache


def fill_cross(plan: StepPlan, cross: CrossStates | None, cache: KVCache) -> None:
    """Write the encoder states of new requests to their cross blocks."""
    setups = [setup for setup in plan.row_setups if setup.fills_cross and setup.request.row >= 0]
    if not setups:
        return
    assert cross is not None
    device = cache.arena.device
    put = partial(upload, device=device)
    for setup in setups:
        request = setup.request
        length = request.cross_tokens
        groups: dict[str, GroupBatch] = {}
        positions = np.arange(length, dtype=np.int64)
        query_start = put(np.array([0, length], dtype=np.int32))
        for table, layout in zip(setup.tables, cache.layouts.values(), strict=True):
            if layout.group.kind is not CacheKind.CROSS:
                continue
            entries = np.array(table[: -(-length // layout.block_tokens)], dtype=np.int32)
            slots = entries.astype(np.int64)[positions // layout.block_tokens] * layout.block_tokens
            groups[layout.group.name] = GroupBatch(
                put(slots + positions % layout.block_tokens),
                put(entries[None]),
                put(np.array([length], dtype=np.int32)),
                query_start,
            )
        batch = Batch(put(positions.astype(np.int32)), query_start, put(np.zeros(0, dtype=np.int64)), groups=groups)
        cross.store(request.inputs.to(device), batch, cache)


def forward_observing(
    plan: StepPlan, batch: Batch, cross: CrossStates | None, cache: KVCache, forward: Callable[[Batch], Tensor]
) -> tuple[Tensor, dict[int, Any]]:
    """The step's logits, and the cross-attention of the entries whose requests ask for it.

    `forward` runs a step in which no request does.
    """
    observing = [entry for entry, request in enumerate(plan.requests) if request.observes]
    if not observing:
        return forward(batch), {}
    assert cross is not None
    logits, seen = cross.forward_aligned(batch, cache)
    weights = torch.cat(seen)  # [heads, tokens, states]
    starts = [0, *accumulate(plan.counts)]
    observed = {
        entry: weights[:, starts[entry] : starts[entry + 1], : plan.requests[entry].cross_tokens].clone().cpu()
        for entry in observing
    }
    return logits, observed
