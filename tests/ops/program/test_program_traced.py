"""Traced tensors follow PyTorch's views, and refuse whatever is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from antiphon.errors import UnrecordableError
from antiphon.ops.program.dimension import Dim, as_dim
from antiphon.ops.program.traced import Kind, Traced, Value

TOKENS, WINDOWS = Dim.symbol("T", 11), Dim.symbol("B", 3)


def traced(*shape: Any, dtype: torch.dtype = torch.float32) -> Traced:
    return Traced.whole(Value(Kind.INPUT, "x", shape, dtype))


def numbers(sizes: Any) -> tuple[int, ...]:
    return tuple(as_dim(size).sample for size in sizes)


VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x.unflatten(-1, (-1, 8)),
    lambda x: x.unflatten(1, (3, 16)),
    lambda x: x.unflatten(-1, (-1, 8)).split([3, 2, 1], dim=1)[1],
    lambda x: x.unflatten(-1, (-1, 8)).split(2, dim=1)[2],
    lambda x: x.chunk(4, dim=-1)[3],
    lambda x: x.unflatten(-1, (6, 8))[:, 1:4].transpose(1, 2),
    lambda x: x.unflatten(-1, (6, 8)).flatten(1),
    lambda x: x[:, 8:24],
    lambda x: x[..., -8:],
    lambda x: x[2:, 5],
    lambda x: x[3],
    lambda x: x[1:-2],
    lambda x: x.unsqueeze(0),
    lambda x: x.unsqueeze(-1),
    lambda x: x.transpose(0, 1)[4],
]


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_pytorchs(view: Callable[[Any], Any]) -> None:
    expected, found = view(torch.empty(11, 48)), view(traced(TOKENS, 48))
    assert numbers(found.shape) == tuple(expected.shape)
    assert numbers(found.strides) == expected.stride()
    assert found.offset == expected.storage_offset()


def test_sizes_stay_symbolic() -> None:
    x = traced(WINDOWS, Dim.symbol("S", 5) * 2, 4).flatten(0, 1)
    assert str(x.shape[0]) == "2BS"
    assert x.shape[0].value({"B": 7, "S": 100}) == 1400
    starts = traced(Dim.symbol("R", 3) + 1, dtype=torch.int32)[:-1]
    assert str(starts.shape[0]) == "R"
    assert str((Dim.symbol("S", 5) * 2 - 1) // 2 + 1) == "S"


OUTSIDE: list[Callable[[Any], Any]] = [
    lambda x: x + 1,
    lambda x: 2 * x,
    lambda x: x @ x,
    lambda x: x > 0,
    lambda x: x.relu(),
    lambda x: x.tolist(),
    lambda x: x.T,
    lambda x: torch.cat([x, x]),
    lambda x: torch.relu(x),
    lambda x: torch.ones(3, 48) + x,
    lambda x: len(x),
    lambda x: list(x),
    lambda x: bool(x),
    lambda x: x[torch.tensor([1])],
    lambda x: x[:5],
    lambda x: x[-1],
    lambda x: x[::2],
    lambda x: x.split(2),
    lambda x: x.transpose(0, 1).flatten(),
    lambda x: x.transpose(0, 1).contiguous(),
    lambda x: x.shape[0] == 1,
    lambda x: x.shape[0] > 4,
    lambda x: bool(x.shape[0]),
    lambda x: x.shape[0] // 2,
    lambda x: (x.shape[0] + 1) * x.shape[0],
    lambda x: x.__setitem__(0, 1.0),
]


@pytest.mark.parametrize("call", OUTSIDE)
def test_everything_else_is_refused_by_name(call: Callable[[Any], Any]) -> None:
    with pytest.raises(UnrecordableError):
        call(traced(TOKENS, 48))
