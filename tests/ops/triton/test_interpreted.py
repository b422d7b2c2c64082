"""The Triton backend under Triton's interpreter, which a process must be started with."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support.kernels.interpreted import run_interpreted

#: Conformance cases that the interpreter takes minutes for, which the cases of this folder make up for.
LONG = "not distribution and not many_blocks and not dtypes and not options and not adapted"
#: The files with cases of operations that the backend implements itself; `cases` has those of its convolutions.
FILES = ("attention", "product", "recurrent", "row", "sound")
OWN = [f"tests/ops/conformance/test_{name}_operations.py" for name in FILES]

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.parametrize("which", ["quantised", "not quantised"])
def test_cases(which: str) -> None:
    run_interpreted("tests/ops/triton/cases", "-k", which)


def test_conformance() -> None:
    run_interpreted(*OWN, "tests/ops/test_conformance.py", "-k", f"triton and {LONG}")


@pytest.mark.slow
def test_whole_conformance(soak: bool) -> None:
    if not soak:
        pytest.skip("the interpreter takes many minutes: --soak runs it")
    run_interpreted("tests/ops/conformance", "-k", "triton and not distribution")
    run_interpreted("tests/ops/triton/cases", "-m", "slow")
