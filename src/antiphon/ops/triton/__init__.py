"""The backend for NVIDIA GPUs: Triton kernels, and PyTorch's own operations where these are faster.

Importing this package imports neither Triton nor a kernel; the first operation does.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from antiphon.environment import interprets_triton

#: Reason why the backend is unavailable.
OBSTACLE = "the triton backend needs an NVIDIA GPU, a CUDA build of PyTorch and the package triton"


def is_interpreted() -> bool:
    """Return whether Triton's interpreter runs the kernels, on CPU tensors."""
    return interprets_triton()


@cache
def available() -> bool:
    """Return whether kernels can run: Triton is installed, and there is a GPU or Triton's interpreter."""
    return (is_interpreted() or torch.cuda.is_available()) and find_spec("triton") is not None


class _Functions:
    """Functions of a module that is imported on first use."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


functions = _Functions("antiphon.ops.triton.operations")
#: Operations that batch-invariant mode uses in place of those in `functions`.
invariant_functions = _Functions("antiphon.ops.triton.invariant.operations")
