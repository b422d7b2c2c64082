"""All kernels of the backend. This module imports no torch."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from triton.runtime.jit import KernelInterface

from antiphon.ops.triton import kernels


def all_kernels() -> Iterator[Any]:
    """Kernels, and functions that they call, in an order that is always the same; some come several times."""
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, KernelInterface):
                yield value


@cache
def hash_kernels() -> None:
    """Have Triton hash all kernels now, so that each has the same key in the cache on disk in every process.

    In Triton 3.6 the hash of a kernel depends on whether functions that it calls were hashed before it.
    """
    for kernel in all_kernels():
        if hasattr(kernel, "cache_key"):  # not under the interpreter
            _ = kernel.cache_key
