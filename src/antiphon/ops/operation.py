"""`operation` declares an operation by its reference implementation and returns the function that callers use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from inspect import Parameter
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

from antiphon.ops.backend import Implementation, Operation, forced
from antiphon.ops.registry import default_backend, defaults

P = ParamSpec("P")
R = TypeVar("R")

_CALL = """
def {name}({parameters}):
    try:
        _run = (_forced() or _defaults["cpu" if {tensor}.is_cpu else {tensor}.device.type]).operations["{name}"]
    except KeyError:
        _run = _find(_declared, {tensor})
    return _run({parameters})
"""


def _find(declared: Operation, tensor: Tensor) -> Implementation:
    """Find the implementation for the first call of an operation on a backend."""
    return (forced.get() or default_backend(tensor.device.type)).find(declared)


def operation(reference: Callable[P, R], tensor: str | None = None) -> Callable[P, R]:
    """Return a function with the signature and docstring of `reference` that calls the active backend's implementation.

    `tensor` is an expression of the parameters: the tensor whose device selects the backend; by default the first
    parameter.
    """
    declared = Operation(reference.__name__, reference)
    if any(parameter.kind is not Parameter.POSITIONAL_OR_KEYWORD for parameter in declared.parameters):
        raise TypeError(f"the parameters of {declared.name} must all be positional or keyword parameters")
    names = [parameter.name for parameter in declared.parameters]
    # Compiled with the operation's own parameters, as a dataclass's methods are: `*args` would cost 0.3 µs a call.
    source = _CALL.format(name=declared.name, parameters=", ".join(names), tensor=tensor or names[0])
    namespace: dict[str, Any] = {"_forced": forced.get, "_defaults": defaults, "_find": _find, "_declared": declared}
    exec(source, namespace)
    call: Any = update_wrapper(namespace[declared.name], reference)
    call.__defaults__ = getattr(reference, "__defaults__", None)
    call.declaration = declared
    return call


def declared_in(namespace: Mapping[str, Any]) -> dict[str, Operation]:
    """Return the operations among a namespace's values by name, in the order of their declaration."""
    found = (getattr(value, "declaration", None) for value in namespace.values())
    return {declared.name: declared for declared in found if isinstance(declared, Operation)}
