"""Lowering of attention in a decode step: one kernel normalises, rotates and stores heads, and attends."""

from __future__ import annotations

import torch

from antiphon.errors import UnrecordableError
from antiphon.ops.program import instructions as program
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Traced, Value
from antiphon.ops.triton.kernels.attention.decode import decode_attention
from antiphon.ops.triton.launch import ceil_power, joined_heads
from antiphon.ops.triton.pages import pages_of, store_launch
from antiphon.ops.triton.program.builder import StepBuilder
from antiphon.ops.triton.program.packed import leave_packed
from antiphon.ops.triton.program.tiles import attention_tile
from antiphon.ops.triton.program.workspace import ALIGNMENT
from antiphon.ops.triton.quantised.forms import BLOCK


def parts_bytes(recording: Recording, rows: int, splits: int) -> int:
    """Return the maximum bytes that the parts of split contexts take in any attention of the recording."""
    if splits == 1:
        return 0
    heads = [i.q.shape for i in recording.instructions if isinstance(i, program.PagedAttentionInstruction)]
    return max((rows * splits * int(shape[1]) * (int(shape[2]) + 2) * 4 for shape in heads), default=0) + 3 * ALIGNMENT


def lower_heads(step: StepBuilder, i: program.HeadsInstruction) -> None:
    attention = _attention_after(step, i.q_out.value)
    if attention is None:
        raise UnrecordableError("heads that are stored have a kernel only with the attention that follows")
    if i.q_eps != i.k_eps:
        raise UnrecordableError("queries and keys that are normalised differently have no kernel")
    _attend(step, attention, i.q, i.k, i.v, i.q_gain, i.k_gain, i.q_eps, i.table)


def lower_store(step: StepBuilder, i: program.StoreInstruction) -> None:
    attention = next(
        (later for later in step.recording.instructions[step.index + 1 :]
         if isinstance(later, program.PagedAttentionInstruction) and later.cache is i.cache), None,
    )  # fmt: skip
    if attention is None:
        raise UnrecordableError("heads that are stored have a kernel only with the attention that follows")
    step.fused.add(step.recording.instructions.index(attention))
    _attend(step, attention, attention.q, i.k, i.v, None, None, 0.0, None)


def _attention_after(step: StepBuilder, queries: Value) -> program.PagedAttentionInstruction | None:
    indices = step.readers.indices(queries)
    attention = step.recording.instructions[indices[0]] if len(indices) == 1 else None
    if not isinstance(attention, program.PagedAttentionInstruction):
        return None
    step.fused.add(indices[0])
    return attention


def lower_attention(step: StepBuilder, i: program.PagedAttentionInstruction) -> None:
    """Lower attention that stores no token, such as attention to the keys of an encoder."""
    _attend(step, i, i.q, None, None, None, None, 0.0, None)


def _attend(
    step: StepBuilder, i: program.PagedAttentionInstruction, q: Traced, k: Traced | None, v: Traced | None,
    q_gain: Traced | None, k_gain: Traced | None, eps: float, table: Traced | None,
) -> None:  # fmt: skip
    if i.bias is not None:
        raise UnrecordableError("attention with a bias has no kernel in a decode step")
    heads, head_dim = int(q.shape[1]), int(q.shape[2])
    cache, layout = i.cache, i.cache.layout
    kv_heads = layout.group.num_kv_heads
    stride = int(q.strides[0])
    starts = (0, heads * head_dim, (heads + kv_heads) * head_dim)
    if [t.offset for t in (q, k, v) if t is not None] != list(starts[: 1 if k is None else 3]):
        raise UnrecordableError("queries, keys and values that are no parts of one product have no kernel")
    qkv = step.tensor(q)
    out = step.take(i.out.value, heads * head_dim, step.compute_type)
    group = step.inputs.groups[i.group]
    pages = pages_of(cache)
    partial = step.scratch((step.rows * heads * step.splits, head_dim)) if step.splits > 1 else out
    tops, totals = ((step.scratch((step.rows * heads * step.splits,)) if step.splits > 1 else out) for _ in "ab")
    rotated = 0 if table is None else int(table.shape[1])
    shared = heads // kv_heads
    tile = attention_tile(step.rows, shared, head_dim, step.compute_type.itemsize)
    other = out
    is_stored = k is not None and step.chained_slots is not None
    if k is not None and step.chained_slots is not None:  # in its own kernel: other rows attend to these tokens
        new_k, new_v = (qkv.view(-1)[start:] for start in starts[1:])
        step.emit([
            store_launch(
                new_k, new_v, (stride, head_dim, stride, head_dim), cache, step.chained_slots[i.group], step.rows,
                step.optional(k_gain), eps, step.optional(table), step.inputs.tensors["positions"],
            )
        ])  # fmt: skip
    packs = head_dim % BLOCK == 0 and head_dim == ceil_power(head_dim)
    row = leave_packed(step, i.out.value, heads * head_dim) if packs else None
    step.launch(
        "attention", decode_attention, (step.splits, kv_heads, step.rows),
        (qkv, step.side(q_gain, other), step.side(k_gain, other), step.side(table, other), group.seq_lens,
         step.inputs.table_rows, group.tables, *pages.regions, step.side(i.sinks, other),
         out, *((other, other) if row is None else (row, row.view(torch.int8))), partial, tops, totals, step.counters,
         stride, group.stride, *pages.bases,
         i.scale, i.softcap or 0.0, eps),
        {"H": heads, "HK": kv_heads, "D": head_dim, "DB": max(16, ceil_power(head_dim)), "ROTATED": rotated,
         "PAGE": layout.block_tokens, "WINDOW": i.window or 0, "SINK_TOKENS": i.sink_tokens,
         "NORM": q_gain is not None, "SOFTCAP": i.softcap is not None, "SINKS": i.sinks is not None,
         "BALANCED": pages.balanced, "NEW": int(k is not None and not is_stored),
         "GROUP": max(16, ceil_power(shared)), "SPLITS": step.splits,
         "JOINED": joined_heads(shared, step.splits, head_dim, tile.warps), "BT": tile.tokens,
         "STAGES": tile.stages, "EARLY": tile.early and not is_stored, "PACKED": row is not None,
         "PDL": step.card.dependent_launch},
        warps=tile.warps,
    )  # fmt: skip
