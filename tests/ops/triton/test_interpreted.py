"""The Triton backend under Triton's interpreter, which a process must be started with."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support.kernels.interpreted import run_interpreted

#: Conformance cases that the interpreter takes long for, which the cases of this folder make up for.
LONG = "distribution or many_blocks or dtypes or options or adapted"
#: The files with cases of operations that the backend implements itself; `cases` has those of its convolutions.
FILES = ("attention", "product", "recurrent", "row", "sound")
OWN = [f"tests/ops/conformance/test_{name}_operations.py" for name in FILES]

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.long("every kernel runs once or so in Triton's interpreter, in one process")
def test_cases() -> None:
    run_interpreted("tests/ops/triton/cases", *OWN, "tests/ops/test_conformance.py", "-k", f"triton and not ({LONG})")


@pytest.mark.slow
@pytest.mark.long("the interpreter runs all types of weights, and draws and drafts of more kinds")
def test_more_cases() -> None:
    run_interpreted("tests/ops/triton/cases", "tests/executor/device/cases", "-m", "slow and not soak")


@pytest.mark.soak
def test_whole_conformance() -> None:
    run_interpreted("tests/ops/conformance", "-k", "triton and not distribution")


@pytest.mark.soak
def test_every_case() -> None:
    run_interpreted("tests/ops/triton/cases", "-m", "soak")
