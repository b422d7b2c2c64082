"""Forms of weights that kernels read, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Made = TypeVar("Made")


class Derived(Generic[Made]):
    """What was made of tensors, kept as long as they are and made again when they have changed."""

    def __init__(self) -> None:
        self._kept: Any = WeakTensorKeyDictionary()  # of tensor: what it depended on, and what was made

    def get(self, tensor: Tensor, make: Callable[[], Made], *besides: object) -> Made:
        """What `make` gave for the tensor as it is now, with the same things besides."""
        version = 0 if tensor.is_inference() else tensor._version  # an inference tensor has none
        depends = (version, *besides)
        found: tuple[object, Made] | None = self._kept.get(tensor)
        if found is None or found[0] != depends:
            found = self._kept[tensor] = (depends, make())
        return found[1]
