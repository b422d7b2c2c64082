"""Memory of a step's values: no two that are alive overlap, and what was given back is used again."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch

from antiphon.ops.triton.program.workspace import ALIGNMENT, CompactWorkspace, StepWorkspace

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8]


def span(tensor: torch.Tensor, base: int) -> range:
    start = tensor.data_ptr() - base
    return range(start, start + tensor.nbytes)


@pytest.mark.parametrize("kind", [StepWorkspace, CompactWorkspace])
@pytest.mark.parametrize("seed", range(4))
def test_live_tensors_never_overlap(seed: int, kind: type[StepWorkspace]) -> None:
    source = random.Random(seed)
    memory = torch.zeros(1 << 20, dtype=torch.uint8)
    workspace, counted = kind(memory), kind(None)
    live: list[tuple[torch.Tensor, torch.Tensor, int]] = []
    for step in range(300):
        if live and source.random() < 0.5:
            tensor, shadow, value = live.pop(source.randrange(len(live)))
            assert (tensor == value).all(), "something else was written over a live tensor"
            workspace.give_back(tensor)
            counted.give_back(shadow)
            continue
        shape, dtype = (source.randrange(1, 5), source.randrange(1, 300)), source.choice(TYPES)
        tensor, value = workspace.take(shape, dtype), step % 100
        assert tensor.shape == shape and tensor.dtype is dtype and tensor.is_contiguous()
        assert span(tensor, memory.data_ptr()).start % ALIGNMENT == 0
        tensor.fill_(value)
        live.append((tensor, counted.take(shape, dtype), value))
        spans = sorted((span(kept, memory.data_ptr()) for kept, _, _ in live), key=lambda s: s.start)
        assert all(a.stop <= b.start for a, b in pairwise(spans))
    assert workspace.used == counted.used <= len(memory), "counting gives what is used"


@pytest.mark.parametrize("kind", [StepWorkspace, CompactWorkspace])
def test_memory_is_used_again(kind: type[StepWorkspace]) -> None:
    workspace = kind(torch.zeros(4096, dtype=torch.uint8))
    first = workspace.take((4, 64), torch.float32)
    workspace.give_back(first)
    second = workspace.take((8, 64), torch.float16)
    assert second.data_ptr() == first.data_ptr() and workspace.used == 1024


def test_gaps_are_joined_and_divided() -> None:
    workspace = CompactWorkspace(torch.zeros(4096, dtype=torch.uint8))
    first, second, last = (workspace.take((256,), torch.float32) for _ in range(3))
    workspace.give_back(second)
    workspace.give_back(first)
    halves = [workspace.take((512,), torch.float16), workspace.take((1024,), torch.uint8)]
    assert [tensor.data_ptr() for tensor in halves] == [first.data_ptr(), second.data_ptr()]
    workspace.give_back(last)
    assert workspace.take((512,), torch.float32).data_ptr() == last.data_ptr() and workspace.used == 4096


def test_too_little_memory_is_an_error() -> None:
    workspace = StepWorkspace(torch.zeros(512, dtype=torch.uint8))
    workspace.take((64,), torch.float32)
    with pytest.raises(ValueError, match="a step needs 1280 bytes of workspace, not 512"):
        workspace.take((256,), torch.float32)
