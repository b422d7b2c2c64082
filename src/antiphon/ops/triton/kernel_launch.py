"""Kernels and library calls with their arguments, ready to be launched repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Launch:
    """A Triton kernel with its grid, arguments and constants."""

    name: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any]
    warps: int = 4
    stages: int = 1
    #: Whether the kernel may start while the previous kernel still runs.
    dependent: bool = False
    #: Bytes of weights that the kernel reads, for reports.
    weight_bytes: int = 0

    @property
    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of the launch: constants and Triton's options."""
        extra: dict[str, Any] = {"launch_pdl": True} if self.dependent else {}
        return {**self.constants, "num_warps": self.warps, "num_stages": self.stages, **extra}

    def __call__(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.keywords)


@dataclass(frozen=True)
class Call:
    """A library's product, or another call that a CUDA graph can capture."""

    name: str
    function: Callable[..., object]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    weight_bytes: int = 0

    def __call__(self) -> None:
        self.function(*self.arguments, **self.keywords)


def run_now(launches: Iterable[Launch]) -> None:
    """Launch kernels outside a step; a kernel with the constant PDL may start while the previous kernel still runs."""
    for launch in launches:
        replace(launch, dependent=bool(launch.constants.get("PDL")))()
