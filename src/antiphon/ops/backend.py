"""`Operation`, the declaration of an operation, and `Backend`, which implements operations. Neither knows a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, NoReturn

import torch

from antiphon.errors import UnsupportedError
from antiphon.ops.types import WeightForm

Implementation = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """A declared operation. The signature and docstring of `reference` hold for every backend."""

    name: str
    reference: Implementation

    @property
    def parameters(self) -> list[Parameter]:
        return list(signature(self.reference).parameters.values())


def _use_reference(operation: Operation) -> Implementation:
    return operation.reference


class Backend:
    """Implementations of operations, found by name in `modules` on the first call.

    `otherwise` returns the implementation of an operation that no module has; by default the reference.
    """

    def __init__(
        self,
        name: str,
        modules: Sequence[object],
        otherwise: Callable[[Operation], Implementation] = _use_reference,
    ) -> None:
        self.name = name
        self._modules = tuple(modules)
        self._otherwise = otherwise
        self.operations: dict[str, Implementation] = {}  # implementations of operations called so far
        self.prepare_weights: Callable[..., list[WeightForm]] = self._function("prepare_weights")
        self.half_type: Callable[[], torch.dtype | None] = self._function("half_type")

    def implementation(self, name: str) -> Implementation | None:
        """Return the function `name` of this backend's own modules, or None if no module has it."""
        found = (getattr(module, name, None) for module in self._modules)
        return next((function for function in found if callable(function)), None)

    def find(self, operation: Operation) -> Implementation:
        """Return the implementation that calls of the operation run, and store it in `operations`."""
        found = self.operations.get(operation.name)
        if found is None:
            found = self.implementation(operation.name) or self._otherwise(operation)
            self.operations[operation.name] = found
        return found

    def _function(self, name: str) -> Any:
        def missing(*_: Any, **__: Any) -> NoReturn:
            raise UnsupportedError(f"the backend {self.name} has no {name}")

        return self.implementation(name) or missing


#: Backend of the `use_operations` block that the current thread or task is in; None outside such blocks.
forced: ContextVar[Backend | None] = ContextVar("antiphon_backend", default=None)


@contextmanager
def use_operations(backend: Backend) -> Iterator[Backend]:
    """Run the operations of a `with` block on a backend, in the current thread or task only."""
    token = forced.set(backend)
    try:
        yield backend
    finally:
        forced.reset(token)
