"""Conformance of backends to the declared operations: cases, signatures, and missing implementations.

A case is a test that compares an operation with an independent computation. `checks` names the case's operations; the
`backend` fixture runs the case on every backend and verifies that it called them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, TypeVar

from torch import Tensor

from antiphon.ops.backend import Backend, Operation, use_operations
from antiphon.ops.registry import make_backend

TOLERANCE = 2e-5

Case = TypeVar("Case", bound=Callable[..., Any])


def relative(value: Tensor, expected: Tensor) -> float:
    """Return ‖value − expected‖ / ‖expected‖ in float64; NaN never passes a comparison."""
    return ((value.double() - expected).norm() / expected.norm()).item()


def checks(*operations: str) -> Callable[[Case], Case]:
    """Mark a test as a case of these operations."""

    def mark(case: Case) -> Case:
        case.operations = operations  # type: ignore[attr-defined]
        return case

    return mark


def checked_operations(case: object) -> tuple[str, ...]:
    return getattr(case, "operations", ())


@contextmanager
def conforming(name: str, case: object) -> Iterator[Backend]:
    """Provide a backend to a case; fail unless the case calls every operation that it is marked with."""
    backend = make_backend(name)
    with use_operations(backend):
        yield backend
    missed = set(checked_operations(case)) - set(backend.operations)
    assert not missed, f"the case is marked with operations that it never calls: {sorted(missed)}"


def operations_with_cases(modules: Iterable[ModuleType]) -> set[str]:
    return {name for module in modules for case in vars(module).values() for name in checked_operations(case)}


def without_case(operations: Mapping[str, Operation], checked: set[str]) -> list[str]:
    return [name for name in operations if name not in checked]


def has_declared_parameters(declared: Operation, implementation: Callable[..., Any]) -> bool:
    """Return whether an implementation has the declared names, order and defaults.

    Its further parameters must have defaults.
    """
    own = list(signature(implementation).parameters.values())
    expected = [(parameter.name, parameter.default) for parameter in declared.parameters]
    further = own[len(expected) :]
    return [(p.name, p.default) for p in own[: len(expected)]] == expected and all(
        parameter.default is not Parameter.empty for parameter in further
    )
