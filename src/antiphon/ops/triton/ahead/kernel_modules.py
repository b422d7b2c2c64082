"""All kernels of the backend. This module imports no torch, which would slow the compiler processes."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from triton.runtime.jit import KernelInterface

from antiphon.ops.triton import kernels


def all_kernels() -> Iterator[Any]:
    """Yield kernels and the functions that they call, in a fixed order; some are yielded several times."""
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, KernelInterface):
                yield value


@cache
def hash_kernels() -> None:
    """Have Triton hash all kernels now, so that each has the same key in the cache on disk in every process.

    In Triton 3.6, a kernel's hash depends on whether functions that the kernel calls were hashed before.
    """
    for kernel in all_kernels():
        if hasattr(kernel, "cache_key"):  # the interpreter's kernels have none
            _ = kernel.cache_key
