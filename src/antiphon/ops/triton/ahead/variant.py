"""`Variant`: a kernel and what Triton compiles it for, without tensors. This module imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any

#: Divisor for which Triton specialises kernels: addresses and integers that are multiples of it, and the integer 1.
ALIGNMENT = 16


@dataclass(frozen=True)
class _Type:
    """Stand-in for a torch type; its text is the same, and Triton only reads that."""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


@dataclass(frozen=True)
class Pointer:
    """Stand-in for a tensor when a kernel is compiled: its type, and whether its address is aligned."""

    type_name: str
    is_aligned: bool

    @property
    def dtype(self) -> _Type:
        return _Type(self.type_name)

    def data_ptr(self) -> int:
        return 0 if self.is_aligned else ALIGNMENT // 2

    def ptr_range(self) -> int:
        return 0


def _described(argument: Any) -> Any:
    """Return a stand-in for an argument, for which Triton compiles the same kernel."""
    if hasattr(argument, "data_ptr"):
        return Pointer(str(argument.dtype).rpartition(".")[2], argument.data_ptr() % ALIGNMENT == 0)
    if isinstance(argument, float):
        return 0.5
    if isinstance(argument, int) and not isinstance(argument, bool) and argument != 1:
        large = 0 if -(1 << 31) <= argument < 1 << 31 else 1 << (40 if argument < 1 << 63 else 63)
        return large + (ALIGNMENT if argument % ALIGNMENT == 0 else 3)
    return argument


@dataclass(frozen=True)
class Variant:
    """A kernel (`module:name`) with stand-ins for its arguments, its constants and the options of a launch.

    Keyword arguments are constants unless they are tensors.
    """

    kernel: str
    arguments: tuple[Any, ...]
    #: Keyword arguments in the order of the call, which is part of Triton's key.
    keywords: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, kernel: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Variant:
        """Return the variant that a launch with these arguments needs."""
        values = tuple(
            (name, _described(value) if hasattr(value, "data_ptr") else value) for name, value in keywords.items()
        )
        described = tuple(map(_described, arguments))
        return cls(f"{kernel.fn.__module__}:{kernel.fn.__qualname__}", described, values)

    @property
    def name(self) -> str:
        return self.kernel.rpartition(":")[2]

    def function(self) -> Any:
        """Import and return the kernel."""
        module, _, name = self.kernel.partition(":")
        return getattr(import_module(module), name)

    def compile(self) -> Any:
        """Compile the kernel for the current device, or read it from the cache on disk; nothing is launched."""
        return self.function().warmup(*self.arguments, grid=(1,), **dict(self.keywords))

    # -- as text ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the variant as JSON, in one line."""
        packed = [_packed(value) for value in self.arguments]
        return json.dumps([self.kernel, packed, [[name, _packed(value)] for name, value in self.keywords]])

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Return the variant that `text` wrote."""
        kernel, arguments, keywords = json.loads(text)
        named = tuple((name, _unpacked(value)) for name, value in keywords)
        return cls(kernel, tuple(map(_unpacked, arguments)), named)

    def digest(self, *about: str) -> str:
        """Return a hash of this variant, of the kernel's code and of `about`."""
        parts = (self.text(), self.function().cache_key, *about)
        return sha256("\0".join(parts).encode()).hexdigest()


def _packed(value: Any) -> Any:
    return [value.type_name, value.is_aligned] if isinstance(value, Pointer) else value


def _unpacked(value: Any) -> Any:
    return Pointer(*value) if isinstance(value, list) else value
