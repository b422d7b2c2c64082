"""Calls of operations reach the backend of their tensor's device, or the one that a block asks for."""

from __future__ import annotations

import threading

import pytest
import torch

from antiphon import ops
from antiphon.errors import UnsupportedError
from antiphon.ops.backend import Backend, use_operations
from antiphon.ops.operation import operation


def both(first: list[torch.Tensor], second: torch.Tensor, *, scale: float) -> torch.Tensor:
    return first[0] + second * scale


def test_the_tensor_s_device_selects_the_backend() -> None:
    assert ops.active_backend("meta").name == "reference"
    assert ops.active_backend("cpu").name == ops.available_backends()[-1]
    x = torch.empty(2, 3, device="meta")
    assert ops.rms_norm(x, torch.empty(3, device="meta"), 1e-6)[0].device.type == "meta"
    assert ops.concatenate([x, x]).device.type == "meta"


def test_a_block_selects_the_backend_for_its_own_thread() -> None:
    seen = []
    with ops.use_backend("reference"):
        other = threading.Thread(target=lambda: seen.append(ops.active_backend().name))
        other.start()
        other.join()
        assert ops.active_backend().name == "reference"
    assert seen == [ops.available_backends()[-1]]


def test_arguments_may_be_given_by_name() -> None:
    x = torch.ones(2, 3)
    assert torch.equal(ops.add(y=x, x=x, scale=0.5), x)


def test_parameters_must_be_positional_or_keyword() -> None:
    with pytest.raises(TypeError, match="the parameters of both must all be positional or keyword parameters"):
        operation(both)


def test_an_unknown_backend_is_rejected_with_those_there_are() -> None:
    with pytest.raises(UnsupportedError, match="unknown backend 'abacus'; there are: reference"):
        ops.get_backend("abacus")


def test_a_backend_without_a_form_for_weights_says_so() -> None:
    with use_operations(Backend("bare", ())), pytest.raises(UnsupportedError, match="bare has no prepare_weights"):
        ops.prepare_weights([])
