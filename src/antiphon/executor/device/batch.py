"""From a plan to the tensors of a `Batch` on the device: one upload, and everything else from the rows there."""

from __future__ import annotations

import numpy as np
import torch

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.step_batch import StepBatch, has_adapters, logit_rows_of
from antiphon.executor.upload import upload
from antiphon.ops import Batch, CacheKind, GroupBatch

#: Stands for a token that only the device knows: the last one of its row.
LAST_TOKEN = -1


def build_device_step(plan: StepPlan, store: DeviceRows) -> StepBatch:
    """The batch of a step, whose rows grow by the tokens that it computes."""
    count, tokens = len(plan.requests), plan.num_tokens
    rows = np.array([request.row for request in plan.requests], dtype=np.int64)
    starts, counts = np.asarray(plan.starts, dtype=np.int32), np.asarray(plan.counts, dtype=np.int32)
    query_start = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(counts, out=query_start[1:])
    ids = np.full(tokens, LAST_TOKEN, dtype=np.int32)
    for entry in range(plan.num_decodes, count):
        start = plan.starts[entry]
        span = plan.requests[entry].tokens[start : start + plan.counts[entry]]
        ids[query_start[entry] : query_start[entry + 1]] = span
    positions = np.repeat(starts - query_start[:-1], counts) + np.arange(tokens, dtype=np.int32)
    entries, logit_rows, sample_rows, prompt_rows, probe_rows = logit_rows_of(plan, query_start)
    parts = (ids, positions, np.repeat(rows, counts), query_start, starts + counts, rows, counts, logit_rows)
    packed = upload(np.concatenate([part.astype(np.int32, copy=False) for part in parts]), store.device)
    given, at, token_rows, first, seq_lens, own_rows, grown, wanted = packed.split([len(part) for part in parts])
    token_ids = torch.where(given < 0, store.last_token[token_rows], given)
    groups: dict[str, GroupBatch] = {}
    for table, layout in zip(store.tables, store.layouts, strict=True):
        size = layout.block_tokens
        if layout.group.kind is CacheKind.CROSS:
            lengths, slots = store.cross_tokens[own_rows], torch.empty(0, dtype=torch.int64, device=store.device)
        else:
            lengths, slots = seq_lens, table[token_rows, at // size].long() * size + at % size
        groups[layout.group.name] = GroupBatch(slots, table, lengths, first, own_rows, plan.num_decodes)
    store.length[own_rows] += grown
    batch = Batch(
        positions=at,
        query_start=first,
        logit_rows=wanted.long(),
        token_ids=token_ids,
        adapters=store.adapter[token_rows] if has_adapters(plan) else None,
        groups=groups,
    )
    return StepBatch(rows, entries, sample_rows, prompt_rows, probe_rows, batch)
