"""Models touch tensors only through `ops` and views: whatever a backend records or replays is then the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from antiphon import ops
from models.test_bert import flatten, tiny_bert, tiny_cross_encoder
from models.test_causal_lm import CONFIGS, pair
from models.test_whisper import tiny_whisper
from support.kernels.paged import PagedRunner

VIEWS = {
    "aten.alias", "aten.as_strided", "aten.detach", "aten.expand", "aten.permute", "aten.select", "aten.slice",
    "aten.split", "aten.split_with_sizes", "aten.squeeze", "aten.t", "aten.transpose", "aten.unbind",
    "aten.unsqueeze", "aten.view", "aten._unsafe_view",
}  # fmt: skip


class OnlyOpsAndViews(TorchDispatchMode):
    """Raises on any tensor operation that is neither a view nor made by an operation of `ops`."""

    depth = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).rsplit(".", 1)[0]
        if not self.depth and name not in VIEWS:
            raise AssertionError(f"{name} was called outside ops")
        return func(*args, **(kwargs or {}))


@contextmanager
def only_ops_and_views(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mode = OnlyOpsAndViews()

    def guarded(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            mode.depth += 1
            try:
                return operation(*args, **kwargs)
            finally:
                mode.depth -= 1

        return call

    with monkeypatch.context() as patch, mode:
        for name in ops.OPERATIONS:
            patch.setattr(ops, name, guarded(getattr(ops, name)))
        yield


@pytest.mark.parametrize("make", CONFIGS, ids=lambda make: make.__name__)
def test_decoders(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = pair(make)
    runner = PagedRunner(model, 1, 16)
    forward = model.forward

    def watched(*args: Any) -> torch.Tensor:
        with only_ops_and_views(monkeypatch):
            return forward(*args)

    monkeypatch.setattr(model, "forward", watched)
    runner.step([(0, [1, 2, 3], 0)])


def test_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = tiny_bert()
    batch = flatten([[1, 2, 3], [4, 5]])
    with only_ops_and_views(monkeypatch):
        model.embed(*batch)


def test_cross_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = tiny_cross_encoder()
    batch = (*flatten([[1, 2, 3], [4, 5]]), torch.tensor([0, 1, 1, 0, 1], dtype=torch.int32))
    with only_ops_and_views(monkeypatch):
        model.score(*batch)


def test_whisper(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = tiny_whisper()
    runner = PagedRunner(model, 1, 16, cross_tokens=20)
    features, starts = torch.randn(1, 40, 8), torch.tensor([0, 20], dtype=torch.int32)
    with only_ops_and_views(monkeypatch):
        encoded = model.encode(features, starts)
    store, forward = model.store_encoded, model.forward

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with only_ops_and_views(monkeypatch):
                return call(*args)

        return run

    monkeypatch.setattr(model, "store_encoded", watched(store))
    monkeypatch.setattr(model, "forward", watched(forward))
    runner.store_encoded(encoded)
    runner.step([(0, [1, 2, 3], 0)])


def test_the_mode_catches_a_stray_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    with pytest.raises(AssertionError, match=r"aten\.mul"), only_ops_and_views(monkeypatch):
        x * 2
