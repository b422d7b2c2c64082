"""Every declared operation has cases, and every implementation of it has the declared parameters.

The cases are in `tests/ops/conformance`: each compares operations with an independent computation on every backend.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from antiphon import ops
from antiphon.ops import native
from antiphon.ops.program.recorder import Recorder
from support.kernels.conformance import has_declared_parameters, operations_with_cases, without_case
from support.kernels.implemented_by import implemented_by

MODULES = [
    import_module(f"ops.conformance.{path.stem}")
    for path in sorted((Path(__file__).parent / "conformance").glob("test_*.py"))
]
CLAIMS = [(name, backend) for name, declared in ops.OPERATIONS.items() for backend in implemented_by(declared)]
RECORDED = [name for name in vars(Recorder) if not name.startswith("_")]


def test_every_operation_has_a_case() -> None:
    checked = operations_with_cases(MODULES)
    assert without_case(ops.OPERATIONS, checked) == []
    assert checked <= set(ops.OPERATIONS)


def test_claims_are_what_a_backend_implements_itself() -> None:
    claimed = {name for name, backend in CLAIMS if backend == "native"}
    own = {"linear", "paged_attention", "sample", "adaptive_norm", "pulse_noise_vocoder"}
    assert (own if native.available() else set()) <= claimed
    assert not {"gather_rows", "mask_frames"} & claimed
    assert {name for name, backend in CLAIMS if backend == "reference"} == set(ops.OPERATIONS)


@pytest.mark.parametrize(("name", "backend"), CLAIMS)
def test_implementations_have_the_declared_parameters(name: str, backend: str) -> None:
    declared = ops.OPERATIONS[name]
    assert has_declared_parameters(declared, ops.get_backend(backend).find(declared))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_forms_have_the_declared_parameters(name: str) -> None:
    assert has_declared_parameters(ops.OPERATIONS[name], getattr(Recorder(), name))


@pytest.mark.parametrize("name", ops.OPERATIONS)
def test_every_operation_says_what_it_computes(name: str) -> None:
    assert ops.OPERATIONS[name].reference.__doc__
    assert getattr(ops, name).__doc__ == ops.OPERATIONS[name].reference.__doc__
