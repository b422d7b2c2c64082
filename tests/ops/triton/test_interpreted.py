"""The Triton backend under Triton's interpreter, which a process must be started with."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
#: Conformance cases that the interpreter takes minutes for, which the cases of this folder make up for.
LONG = "not distribution and not many_blocks and not dtypes and not options and not adapted"
#: The files with cases of operations that the backend implements itself; the others are the reference's.
OWN = [f"tests/ops/conformance/test_{name}_operations.py" for name in ("attention", "product", "recurrent", "row")]

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def run(*arguments: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *arguments]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_cases() -> None:
    run("tests/ops/triton/cases")


def test_conformance() -> None:
    run(*OWN, "tests/ops/test_conformance.py", "-k", f"triton and {LONG}")


@pytest.mark.slow
def test_whole_conformance() -> None:
    run("tests/ops/conformance", "-k", "triton and not distribution")
    run("tests/ops/triton/cases", "-m", "slow")
