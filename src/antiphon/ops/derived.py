"""Cache of values derived from tensors, such as packed forms of weights that kernels read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Made = TypeVar("Made")


class Derived(Generic[Made]):
    """Values derived from tensors, cached as long as the tensor lives and derived again after it changes.

    Safe to share between threads, which share its values. A caller that passes a value's address to a kernel must hold
    a reference to the value: a new version of the tensor drops the cache's own.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._kept: Any = WeakTensorKeyDictionary()  # tensor → ((version, *besides), value)

    def get(self, tensor: Tensor, make: Callable[[], Made], *besides: object) -> Made:
        """Return the result of `make` for the tensor's current version and `besides`, cached if neither changed."""
        version = 0 if tensor.is_inference() else tensor._version  # inference tensors have no version
        depends = (version, *besides)
        found = self._found(tensor, depends)
        if found is None:
            with self._making:
                found = self._found(tensor, depends)
                if found is None:
                    found = self._kept[tensor] = (depends, make())
        return found[1]

    def _found(self, tensor: Tensor, depends: object) -> tuple[object, Made] | None:
        found: tuple[object, Made] | None = self._kept.get(tensor)
        return found if found is not None and found[0] == depends else None
