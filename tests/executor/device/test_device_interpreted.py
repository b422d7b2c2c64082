"""The executor of a GPU with its kernels under Triton's interpreter."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support.kernels.interpreted import run_interpreted

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.long("the steps of every kind of model run in Triton's interpreter, in one process")
def test_cases() -> None:
    run_interpreted("tests/executor/device/cases")


@pytest.mark.soak
def test_large_batches_and_every_kind_of_request() -> None:
    run_interpreted("tests/executor/device/cases", "-m", "soak")
