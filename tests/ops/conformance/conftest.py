"""Every test of this folder runs on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from antiphon import ops
from antiphon.ops.triton import available, is_interpreted
from support.kernels.conformance import conforming
from support.kernels.interpreted import keep_language_patched

if available() and is_interpreted():
    keep_language_patched()


@pytest.fixture(params=ops.available_backends(), autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with conforming(request.param, request.function):
        yield request.param


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(17)
