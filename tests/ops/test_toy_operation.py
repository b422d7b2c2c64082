"""A toy operation is one file (`support/kernels/toy_operation.py`) and one line, and has all that an operation has.

It is dispatched to the active backend, held to conformance, and rejected by name where a forward is recorded.
"""

from __future__ import annotations

from inspect import signature
from types import ModuleType, SimpleNamespace

import pytest
import torch

from antiphon import ops
from antiphon.errors import UnrecordableError
from antiphon.ops.backend import Backend, use_operations
from antiphon.ops.operation import declared_in, operation
from antiphon.ops.program import InputSpec, record
from support.kernels import toy_operation
from support.kernels.conformance import checks, conforming, has_declared_parameters, operations_with_cases, without_case
from support.kernels.implemented_by import implemented_by

mirror_rows = operation(toy_operation.mirror_rows)  # the one line

OPERATIONS = declared_in(globals())
X = torch.arange(6.0).view(2, 3)


def test_it_is_declared_by_its_reference() -> None:
    assert list(OPERATIONS) == ["mirror_rows"]
    assert signature(mirror_rows) == signature(toy_operation.mirror_rows)
    assert mirror_rows.__doc__ == toy_operation.mirror_rows.__doc__
    assert implemented_by(OPERATIONS["mirror_rows"]) == ["reference"]
    assert "mirror_rows" not in ops.OPERATIONS


@pytest.mark.parametrize("backend", ops.available_backends())
def test_backends_without_it_use_the_reference(backend: str) -> None:
    with ops.use_backend(backend):
        assert torch.equal(mirror_rows(X), X.flip(-1))
        assert torch.equal(mirror_rows(x=X, times=2), X)


def test_a_backend_implements_it_with_a_function_of_its_name() -> None:
    calls = []

    def fast(x: torch.Tensor, times: int = 1, threads: int = 0) -> torch.Tensor:
        calls.append((times, threads))
        return toy_operation.mirror_rows(x, times)

    backend = Backend("fast", (SimpleNamespace(mirror_rows=fast),))
    with use_operations(backend):
        assert torch.equal(mirror_rows(X), X.flip(-1))
    assert calls == [(1, 0)]
    assert has_declared_parameters(OPERATIONS["mirror_rows"], fast)
    assert not has_declared_parameters(OPERATIONS["mirror_rows"], lambda x, times=2: x)
    assert not has_declared_parameters(OPERATIONS["mirror_rows"], lambda x, times=1, *, threads: x)


@checks("mirror_rows")
def case() -> None:
    assert mirror_rows(X).tolist() == [[2.0, 1.0, 0.0], [5.0, 4.0, 3.0]]


def test_it_needs_a_case() -> None:
    module = ModuleType("cases")
    assert without_case(OPERATIONS, operations_with_cases([module])) == ["mirror_rows"]
    module.case = case  # type: ignore[attr-defined]
    assert without_case(OPERATIONS, operations_with_cases([module])) == []


@pytest.mark.parametrize("backend", ops.available_backends())
def test_its_case_holds_on_every_backend(backend: str) -> None:
    with conforming(backend, case):
        case()


def test_a_case_must_call_what_it_is_marked_with() -> None:
    with pytest.raises(AssertionError, match="mirror_rows"), conforming("reference", case):
        pass


def test_the_recorder_rejects_it_by_name() -> None:
    with pytest.raises(UnrecordableError, match="mirror_rows cannot be recorded: no instruction stands for it"):
        record(lambda inputs, _: mirror_rows(inputs["x"]), (InputSpec("x", torch.float32, ("T", 3)),))
