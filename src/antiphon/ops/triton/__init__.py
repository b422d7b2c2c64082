"""The backend for NVIDIA GPUs: Triton kernels, and PyTorch's own operations where those are best.

Importing this package imports neither Triton nor a kernel; the first operation does.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from antiphon.environment import interprets_triton

#: Why the backend is not available, where it is not.
OBSTACLE = "the triton backend needs an NVIDIA GPU, a CUDA build of PyTorch and the package triton"


def is_interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels, on CPU tensors."""
    return interprets_triton()


@cache
def available() -> bool:
    """Whether there is something to run the kernels on."""
    return (is_interpreted() or torch.cuda.is_available()) and find_spec("triton") is not None


class _Functions:
    """The functions of a module, which is imported when the first of them is asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


functions = _Functions("antiphon.ops.triton.operations")
#: Those that batch-invariant mode has instead of some of `functions`.
invariant_functions = _Functions("antiphon.ops.triton.invariant.operations")
