"""Forms of weights that kernels read, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Made = TypeVar("Made")


class Derived(Generic[Made]):
    """Values derived from tensors, cached as long as the tensor lives and derived again when it has changed."""

    def __init__(self) -> None:
        self._kept: Any = WeakTensorKeyDictionary()  # tensor → (what the value depends on, the value)

    def get(self, tensor: Tensor, make: Callable[[], Made], *besides: object) -> Made:
        """The result of `make` for the tensor in its present version and with equal `besides`."""
        version = 0 if tensor.is_inference() else tensor._version  # an inference tensor has none
        depends = (version, *besides)
        found: tuple[object, Made] | None = self._kept.get(tensor)
        if found is None or found[0] != depends:
            found = self._kept[tensor] = (depends, make())
        return found[1]
