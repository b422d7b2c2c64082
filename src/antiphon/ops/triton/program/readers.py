"""`Readers`: the instructions that read each value of a recording."""

from __future__ import annotations

from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Value


class Readers:
    """Instructions that read each value of a recording, by index.

    In a decode step every row has logits, so a gathered value is the value itself, and products may read the input of a
    norm in place of its result. Neither holds in a step with prompts.
    """

    def __init__(self, recording: Recording, is_decode: bool = True) -> None:
        self._instructions = recording.instructions
        self._is_decode = is_decode
        self._aliases: dict[int, Value] = {}
        for instruction in recording.instructions:
            if is_decode and isinstance(instruction, program.GatherInstruction):
                self._aliases[id(instruction.out.value)] = instruction.x.value
        self._indices: dict[int, list[int]] = {}
        for index, instruction in enumerate(recording.instructions):
            if not (is_decode and isinstance(instruction, program.GatherInstruction)):
                for value in instruction.reads():
                    self._indices.setdefault(id(self.origin(value)), []).append(index)
        if recording.output is not None:  # the caller reads it after the last instruction
            self._indices.setdefault(id(self.origin(recording.output)), []).append(len(recording.instructions))

    def origin(self, value: Value) -> Value:
        """Return the value that holds the contents of this one."""
        while id(value) in self._aliases:
            value = self._aliases[id(value)]
        return value

    def indices(self, value: Value) -> list[int]:
        """Return the sorted indices of a value's readers; the caller's index is the number of instructions."""
        return self._indices.get(id(self.origin(value)), [])

    def of(self, value: Value) -> list[Instruction | None]:
        """Return the instructions that read a value, with None for the caller."""
        count = len(self._instructions)
        return [self._instructions[index] if index < count else None for index in self.indices(value)]

    def products_of(self, value: Value) -> list[program.LinearInstruction]:
        """Return the products that read a value, or an empty list if anything else reads it."""
        found = []
        for reader in self.of(value):
            if type(reader) is not program.LinearInstruction or self.origin(reader.x.value) is not self.origin(value):
                return []
            found.append(reader)
        return found

    def norms_of(self, value: Value) -> list[program.NormInstruction]:
        return [reader for reader in self.of(value) if isinstance(reader, program.NormInstruction)]

    def last(self, value: Value, now: int) -> int:
        """Return the index of a value's last reader, at least `now`; readers of a fused norm read its input."""
        last = max([now, *self.indices(value)])
        for norm in self.norms_of(value) if self._is_decode else ():
            last = max(last, self.last(norm.out.value, now))
        return last
