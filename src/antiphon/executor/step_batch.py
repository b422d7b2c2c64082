"""Tensors of a `Batch` from a plan and the rows; pure decode steps are built without a loop over requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from antiphon.engine.plan import StepPlan
from antiphon.executor.draft_rows import DraftRows
from antiphon.executor.rows import RowStore
from antiphon.ops import Batch, CacheKind, GroupBatch


@dataclass(frozen=True)
class StepEntries:
    """Rows of a step's entries in the store, and their rows of the logits."""

    rows: np.ndarray  # int64 [R]
    sample_entries: list[int]  # entries that sample a token; with a draft, repeated for each row that they sample from
    sample_rows: list[int] | None  # rows of the logits that they sample from; None: all rows, in order
    prompt_rows: dict[int, tuple[int, int]]  # entry → span of the logits, if its prompt's logprobs are requested
    probe_rows: dict[int, int]  # entry → row of the logits that its probe reads
    drafts: DraftRows | None = None  # rows that tokens are sampled from; None if no entry has a draft


@dataclass(frozen=True, kw_only=True)
class StepBatch(StepEntries):
    """Entries of a step with the tensors of its forward pass."""

    batch: Batch


def decode_entries(plan: StepPlan) -> StepEntries:
    """Return the entries of a step in which each computes and samples one token, and no other logits are read."""
    rows = np.array([request.row for request in plan.requests], dtype=np.int64)
    return StepEntries(rows, list(range(len(rows))), None, {}, {})


def has_adapters(plan: StepPlan) -> bool:
    return any(request.adapter >= 0 for request in plan.requests)


def build_step(plan: StepPlan, store: RowStore) -> StepBatch:
    count = len(plan.requests)
    rows = np.array([request.row for request in plan.requests], dtype=np.int64)
    starts = np.asarray(plan.starts, dtype=np.int32)
    query_start = np.zeros(count + 1, dtype=np.int32)
    if plan.num_decodes == count:
        query_start[1:] = np.arange(1, count + 1, dtype=np.int32)
        positions, token_rows, seq_lens = starts, rows, starts + 1
        token_ids = store.last_token[rows]
    else:
        counts = np.asarray(plan.counts, dtype=np.int32)
        np.cumsum(counts, out=query_start[1:])
        seq_lens = starts + counts
        positions = np.repeat(starts - query_start[:-1], counts) + np.arange(plan.num_tokens, dtype=np.int32)
        token_rows = np.repeat(rows, counts)
        token_ids = np.empty(plan.num_tokens, dtype=np.int32)
        token_ids[: plan.num_decodes] = store.last_token[rows[: plan.num_decodes]]
        for entry in range(plan.num_decodes, count):
            token_ids[query_start[entry] : query_start[entry + 1]] = plan.tokens_of(entry)
    start_tensor = torch.from_numpy(query_start)
    longest = int(seq_lens.max())
    groups: dict[str, GroupBatch] = {}
    for table, layout in zip(store.tables, store.layouts, strict=True):
        size = layout.block_tokens
        if layout.group.kind is CacheKind.CROSS:
            lengths = store.cross_tokens[rows]
            slots = np.full(0, -1, dtype=np.int64)
            width = -(-int(lengths.max()) // size)
        else:
            lengths, width = seq_lens, -(-longest // size)
            slots = table[token_rows, positions // size].astype(np.int64) * size + positions % size
        groups[layout.group.name] = GroupBatch(
            torch.from_numpy(slots),
            torch.from_numpy(table[rows, :width]),
            torch.from_numpy(lengths),
            start_tensor,
        )
    logit_rows, entries = logit_rows_of(plan, rows, query_start)
    batch = Batch(
        positions=torch.from_numpy(positions),
        query_start=start_tensor,
        logit_rows=torch.from_numpy(logit_rows),
        token_ids=torch.from_numpy(token_ids),
        adapters=torch.from_numpy(store.adapter[token_rows]) if has_adapters(plan) else None,
        groups=groups,
    )
    return StepBatch(**vars(entries), batch=batch)


def logit_rows_of(plan: StepPlan, rows: np.ndarray, query_start: np.ndarray) -> tuple[np.ndarray, StepEntries]:
    """Return the tokens whose logits are computed, and the entries that these belong to.

    They are the last token of each sampling entry and the tokens before it that a draft follows, tokens that probes
    read, and all tokens of prompts whose logprobs are requested.
    """
    entries = [entry for entry, samples in enumerate(plan.samples) if samples]
    drafts = DraftRows.of(plan, entries) if plan.drafts else None
    wanting = [
        entry
        for entry in range(plan.num_decodes, len(plan.requests))
        if plan.requests[entry].params.prompt_logprobs and plan.starts[entry] < plan.requests[entry].num_prompt_tokens
    ]
    probing = {
        entry: request.probe[0] - plan.starts[entry]
        for entry, request in enumerate(plan.requests)
        if request.probe is not None and 0 <= request.probe[0] - plan.starts[entry] < plan.counts[entry]
    }
    ends = query_start[1:] - 1
    if not wanting and not probing:
        if drafts is not None:
            lengths = np.array([len(plan.drafts.get(entry, ())) for entry in drafts.entries])
            last = ends[drafts.entries] - lengths + drafts.offsets
            return last.astype(np.int64), StepEntries(rows, drafts.entries, None, {}, {}, drafts)
        last = ends if len(entries) == len(plan.requests) else ends[entries]
        return last.astype(np.int64), StepEntries(rows, entries, None, {}, {})
    logit_rows: list[int] = []
    sample_rows: list[int] = []
    prompt_rows: dict[int, tuple[int, int]] = {}
    probe_rows: dict[int, int] = {}
    for entry, samples in enumerate(plan.samples):
        first, last = int(query_start[entry]), int(query_start[entry + 1])
        if entry in wanting:
            prompt_rows[entry] = (len(logit_rows), len(logit_rows) + last - first)
            logit_rows.extend(range(first, last))
        elif samples:
            logit_rows.extend(range(last - 1 - len(plan.drafts.get(entry, ())), last))
        if samples:
            end = len(logit_rows)
            sample_rows.extend(range(end - 1 - len(plan.drafts.get(entry, ())), end))
        if entry in probing:
            probe_rows[entry] = len(logit_rows)
            logit_rows.append(first + probing[entry])
    sampling = entries if drafts is None else drafts.entries
    found = StepEntries(rows, sampling, sample_rows, prompt_rows, probe_rows, drafts)
    return np.asarray(logit_rows, dtype=np.int64), found
