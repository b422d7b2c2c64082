"""Fusion of instructions that one pass over the tokens can compute together, without changing a bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from antiphon.ops.program.instructions import (
    HeadsInstruction,
    Instruction,
    NormInstruction,
    RotaryInstruction,
    StoreInstruction,
)
from antiphon.ops.program.traced import Traced, Value


def fuse(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Fuse each rotary embedding with the store that follows it and the norms of queries and keys before it."""
    uses = Counter(id(value) for instruction in instructions for value in instruction.reads())
    writer = {id(v): i for i, instruction in enumerate(instructions) for v in instruction.writes()}
    fused: dict[int, Instruction] = {}
    dropped: set[int] = set()
    for index, store in enumerate(instructions):
        if not isinstance(store, StoreInstruction):
            continue
        rotary_index = writer.get(id(store.k.value), -1)
        rotary = instructions[rotary_index] if rotary_index >= 0 else None
        if (
            not isinstance(rotary, RotaryInstruction)
            or store.k.value is not rotary.k_out.value
            or not _is_whole(store.k)
        ):
            continue
        if uses[id(rotary.k_out.value)] != 1 or _is_read(rotary.q_out.value, instructions[rotary_index + 1 : index]):
            continue
        norms = [_plain_norm(heads, instructions, writer, uses) for heads in (rotary.q, rotary.k)]
        q_norm, k_norm = norms if None not in norms else (None, None)  # fusing a single norm gains nothing
        dropped |= {rotary_index} | {writer[id(norm.out.value)] for norm in (q_norm, k_norm) if norm is not None}
        fused[index] = HeadsInstruction(
            q=rotary.q if q_norm is None else q_norm.x,
            k=rotary.k if k_norm is None else k_norm.x,
            v=store.v,
            q_gain=None if q_norm is None else q_norm.gain,
            q_eps=0.0 if q_norm is None else q_norm.eps,
            k_gain=None if k_norm is None else k_norm.gain,
            k_eps=0.0 if k_norm is None else k_norm.eps,
            positions=rotary.positions,
            table=rotary.table,
            cache=store.cache,
            group=store.group,
            q_out=rotary.q_out,
        )
    return tuple(fused.get(i, instruction) for i, instruction in enumerate(instructions) if i not in dropped)


def _plain_norm(
    heads: Traced, instructions: Sequence[Instruction], writer: dict[int, int], uses: Counter[int]
) -> NormInstruction | None:
    """Return the per-head RMS norm that writes `heads`; None without one, or if other instructions read its result."""
    index = writer.get(id(heads.value))
    norm = None if index is None else instructions[index]
    if not isinstance(norm, NormInstruction) or norm.centred or norm.residual is not None or norm.bias is not None:
        return None
    return norm if norm.x.dim() == 3 and uses[id(heads.value)] == 1 and _is_whole(heads) else None


def _is_whole(tensor: Traced) -> bool:
    return not tensor.offset and tensor.is_contiguous()


def _is_read(value: Value, instructions: Sequence[Instruction]) -> bool:
    return any(value is read for instruction in instructions for read in instruction.reads())
