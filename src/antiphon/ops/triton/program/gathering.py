"""`gather_early`: rows without logits are not computed where nothing else reads them."""

from __future__ import annotations

from dataclasses import fields, replace

from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Kind, Traced, Value

#: Instructions in which a row of the result depends only on that row of the operands.
ROW_WISE = (program.LinearInstruction, program.NormInstruction, program.AddInstruction)


def gather_early(recording: Recording) -> Recording:
    """Gather rows before the last instructions that treat each row by itself; the result is the same.

    In a decoder these are the last layer's instructions after attention. A recording that gathers rows more than once,
    or never, is returned unchanged.
    """
    instructions = recording.instructions
    indices = [index for index, i in enumerate(instructions) if isinstance(i, program.GatherInstruction)]
    if len(indices) != 1:
        return recording
    gather = instructions[indices[0]]
    assert isinstance(gather, program.GatherInstruction)
    before, after = instructions[: indices[0]], instructions[indices[0] + 1 :]
    if not _is_whole(gather.x):
        return recording
    moved = _movable(before, gather, [value for i in after for value in i.reads()])
    rows = gather.out.shape[0]
    renamed = {id(gather.x.value): gather.out.value}
    gathers: list[Instruction] = []
    written = {id(value) for i in moved for value in i.writes()}

    def of(tensor: Traced) -> Traced:
        """Return the gathered rows of an operand or a result; gather them first if no moved instruction writes them."""
        if tensor.value.kind is not Kind.BUFFER:
            return tensor
        if id(tensor.value) not in renamed:
            value = Value(Kind.BUFFER, tensor.value.name, (rows, tensor.shape[1]), tensor.dtype)
            renamed[id(tensor.value)] = value
            if id(tensor.value) not in written:
                gathers.append(program.GatherInstruction(x=tensor, index=gather.index, out=Traced.whole(value)))
        return Traced.whole(renamed[id(tensor.value)])

    if not moved:
        return recording
    late = [_with_operands(i, {name: of(tensor) for name, tensor in _tensors(i).items()}) for i in moved]
    kept = [i for i in before if not any(i is other for other in moved)]
    return replace(recording, instructions=(*kept, *gathers, *late, *after))


def _movable(
    before: tuple[Instruction, ...], gather: program.GatherInstruction, later: list[Value]
) -> list[Instruction]:
    """Return row-wise instructions whose results are only read by the gathering, or by each other."""
    read_elsewhere = {id(value) for value in later}
    moved: list[Instruction] = []
    for instruction in reversed(before):
        row_wise = type(instruction) in ROW_WISE and all(_is_whole(t) for t in _tensors(instruction).values())
        needed = any(value is gather.x.value for value in instruction.writes()) or any(
            value is read for other in moved for read in other.reads() for value in instruction.writes()
        )
        if row_wise and needed and not any(id(value) in read_elsewhere for value in instruction.writes()):
            moved.insert(0, instruction)
        else:
            read_elsewhere |= {id(value) for value in instruction.reads()}
    return moved


def _tensors(instruction: Instruction) -> dict[str, Traced]:
    found = {field.name: getattr(instruction, field.name) for field in fields(instruction)}
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, Traced)}


def _with_operands(instruction: Instruction, tensors: dict[str, Traced]) -> Instruction:
    return replace(instruction, **tensors)


def _is_whole(tensor: Traced) -> bool:
    """Return whether a tensor is a constant of the model, or the whole of a two-dimensional value."""
    return tensor.value.kind is Kind.CONSTANT or (
        tensor.value.kind is Kind.BUFFER and tensor.dim() == 2 and not tensor.offset and tensor.is_contiguous()
    )
