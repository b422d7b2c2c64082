"""Recording of a forward pass, which runs on stand-ins for tensors: each operation appends an instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn

import torch

from antiphon.errors import UnrecordableError
from antiphon.ops.backend import Backend, Implementation, Operation, use_operations
from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.program.dimension import Dim, Size, as_dim, product, same, shape_text
from antiphon.ops.program.fusion import fuse
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.recorder import Recorder
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.weights.weight import Weight

#: Values of the symbols while recording. Recordings with both sets of sizes must be equal.
SAMPLES = ({"T": 11, "R": 3, "L": 5, "B": 2, "S": 7}, {"T": 13, "R": 4, "L": 3, "B": 3, "S": 5})


@dataclass(frozen=True)
class InputSpec:
    """Input tensor of a recorded forward. Sizes are numbers or symbols: ("R", 1) is R + 1, ("S", 0, 2) is 2 S."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str | tuple[str, int] | tuple[str, int, int], ...]

    def sizes(self, samples: Mapping[str, int]) -> tuple[Size, ...]:
        found: list[Size] = []
        for size in self.shape:
            if isinstance(size, int):
                found.append(size)
                continue
            symbol, constant, factor = (size, 0, 1) if isinstance(size, str) else (*size, 1)[:3]
            found.append(Dim.symbol(symbol, samples[symbol]) * factor + constant)
        return tuple(found)


@dataclass(frozen=True)
class Recording:
    """Forward pass as instructions over values of symbolic size."""

    inputs: tuple[Value, ...]
    groups: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    output: Value | None

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols in the inputs' sizes, in the order in which a run passes their values."""
        found = {s for value in self.inputs for size in value.shape for s in as_dim(size).symbols}
        return tuple(symbol for symbol in SAMPLES[0] if symbol in found)


#: Forward pass to record: takes the traced inputs and the traced cache groups, by name, and returns its result.
Forward = Callable[[Mapping[str, Any], dict[str, GroupBatch]], Any]


def record(forward: Forward, inputs: Sequence[InputSpec], groups: Sequence[str] = ()) -> Recording:
    """Record a forward as fused instructions. Raise `UnrecordableError` with the reason if that is not possible."""
    first, second = (_trace(forward, inputs, groups, samples) for samples in SAMPLES)
    if _fingerprint(first) != _fingerprint(second):
        raise UnrecordableError("the forward does other things for other numbers of tokens or requests")
    return Recording(first.inputs, first.groups, fuse(first.instructions), first.output)


def _trace(
    forward: Forward, inputs: Sequence[InputSpec], groups: Sequence[str], samples: Mapping[str, int]
) -> Recording:
    recorder = Recorder()
    values = [Value(Kind.INPUT, spec.name, spec.sizes(samples), spec.dtype) for spec in inputs]
    requests, tokens = Dim.symbol("R", samples["R"]), Dim.symbol("T", samples["T"])
    batches = {}
    for name in groups:
        shapes = ((tokens,), (requests, 1), (requests,), (requests + 1,))
        tables = [Traced.whole(Value(Kind.TABLES, name, shape, torch.int32)) for shape in shapes]
        batches[name] = GroupBatch(*tables)  # type: ignore[arg-type]
        recorder.groups[id(batches[name])] = name
    with use_operations(Backend("record", (recorder,), _reject)):
        result = forward({value.name: Traced.whole(value) for value in values}, batches)
    output = None if result is None else _whole(result)
    return Recording(tuple(values), tuple(groups), tuple(recorder.instructions), output)


def _reject(operation: Operation) -> Implementation:
    """Return an implementation that raises `UnrecordableError`: the recorder has no method for the operation."""

    def rejected(*_: Any, **__: Any) -> NoReturn:
        raise UnrecordableError(f"{operation.name} cannot be recorded: no instruction stands for it")

    return rejected


def _whole(result: Any) -> Value:
    """Return the value of the forward's result, which must be the whole result of an instruction."""
    if not isinstance(result, Traced) or result.value.kind is not Kind.BUFFER:
        raise UnrecordableError(f"the forward gives back {type(result).__name__}, not the result of an operation")
    if result.offset or not result.is_contiguous() or not same(product(result.shape), result.value.size):
        raise UnrecordableError(f"the forward gives back a part of {shape_text(result.value.shape)}")
    result.value.shape = result.shape
    return result.value


def _fingerprint(recording: Recording) -> list[Any]:
    """Return the parts of a recording that must be equal in another recording of the same forward."""
    numbers: dict[int, int] = {}

    def of(item: Any) -> Any:
        if isinstance(item, Traced):
            value = item.value
            constant = None if value.constant is None else value.constant.data_ptr()
            number = numbers.setdefault(id(value), len(numbers)) if constant is None else constant
            sizes = [as_dim(size).key for size in (*item.shape, *item.strides)]
            return (value.kind, number, item.offset, sizes)
        if isinstance(item, Dim):
            return item.key
        return id(item) if isinstance(item, Weight | LayerCache) else item

    instructions_ = [(type(i), [of(getattr(i, f.name)) for f in fields(i)]) for i in recording.instructions]
    output = recording.output
    return [instructions_, None if output is None else numbers.get(id(output))]
