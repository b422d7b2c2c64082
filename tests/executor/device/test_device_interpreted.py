"""The executor of a GPU with its kernels under Triton's interpreter."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support.kernels.interpreted import run_interpreted

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def test_cases() -> None:
    run_interpreted("tests/executor/device/cases")


@pytest.mark.slow
def test_every_kind_of_request(soak: bool) -> None:
    if not soak:
        pytest.skip("the interpreter takes many minutes: --soak runs it")
    run_interpreted("tests/executor/device/cases", "-m", "slow")
