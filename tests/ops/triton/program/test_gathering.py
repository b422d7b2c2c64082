"""Rows with logits are gathered before what treats each row by itself; the result stays the same."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops.program import instructions as program
from antiphon.ops.program.dimension import Dim
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.ops.triton.program.gathering import gather_early
from antiphon.weights.weight import Weight

T, L, WIDTH = Dim.symbol("T", 7), Dim.symbol("L", 2), 4


def value(rows: Dim) -> Traced:
    return Traced.whole(Value(Kind.BUFFER, "", (rows, WIDTH), torch.float32))


def linear(x: Traced, out: Traced, residual: Traced | None = None) -> program.LinearInstruction:
    weight = Weight.from_tensor(torch.zeros(WIDTH, WIDTH))
    return program.LinearInstruction(x=x, matrix=weight, bias=None, activation="none", residual=residual, out=out)


def norm(x: Traced, out: Traced) -> program.NormInstruction:
    gain = Traced.whole(Value(Kind.CONSTANT, "gain", (WIDTH,), torch.float32, torch.ones(WIDTH)))
    return program.NormInstruction(
        centred=False, x=x, gain=gain, bias=None, eps=0.0, residual=None, out=out, total=None
    )


def record(*instructions: program.Instruction) -> Recording:
    return Recording((), (), instructions, instructions[-1].writes()[0])


def rows_of(recording: Recording) -> list[tuple[str, str]]:
    return [(i.operation, str(i.rows)) for i in recording.instructions]


@pytest.fixture
def index() -> Traced:
    return Traced.whole(Value(Kind.INPUT, "logit_rows", (L,), torch.int64))


def test_a_layer_after_attention_is_computed_for_rows_with_logits(index: Traced) -> None:
    attended, stream, summed, normed, last = (value(T) for _ in range(5))
    found, logits = value(L), value(L)
    made = gather_early(
        record(
            norm(stream, value(T)),  # read by what is not row-wise
            linear(attended, summed, residual=stream),
            norm(summed, normed),
            linear(normed, last, residual=summed),
            program.GatherInstruction(x=last, index=index, out=found),
            linear(found, logits),
        )
    )
    assert rows_of(made) == [
        ("rms_norm", "T"), ("gather_rows", "L"), ("gather_rows", "L"), ("linear", "L"), ("rms_norm", "L"),
        ("linear", "L"), ("linear", "L"),
    ]  # fmt: skip
    first, second, product, after, down, head = made.instructions[1:]
    assert isinstance(first, program.GatherInstruction) and isinstance(second, program.GatherInstruction)
    assert {id(first.x.value), id(second.x.value)} == {id(attended.value), id(stream.value)}
    assert (
        isinstance(product, program.LinearInstruction)
        and isinstance(down, program.LinearInstruction)
        and isinstance(head, program.LinearInstruction)
    )
    assert isinstance(after, program.NormInstruction)
    assert product.residual is not None and down.residual is not None
    assert after.x.value is product.out.value is down.residual.value
    assert down.out.value is found.value is head.x.value and made.output is logits.value


def test_what_something_else_reads_stays(index: Traced) -> None:
    stream, summed, found = value(T), value(T), value(L)
    recording = record(
        linear(stream, summed), program.GatherInstruction(x=summed, index=index, out=found), linear(summed, value(T))
    )
    assert gather_early(recording) is recording


def test_rows_that_are_gathered_twice_or_never_stay(index: Traced) -> None:
    stream = value(T)
    plain = record(linear(stream, value(T)))
    assert gather_early(plain) is plain
    twice = record(*(program.GatherInstruction(x=stream, index=index, out=value(L)) for _ in range(2)))
    assert gather_early(twice) is twice
