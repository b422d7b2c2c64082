"""Collection of the kernels that a function would launch, by calling it while its launches do nothing.

The outputs of such a call are uninitialised memory, so nothing in it may use a kernel's result as an index or wait for
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

from antiphon.ops.triton.ahead.kernel_modules import all_kernels
from antiphon.ops.triton.ahead.variant import Variant

#: Variants that this thread collects, or None if the thread launches kernels.
_collected: ContextVar[dict[Variant, None] | None] = ContextVar("collected", default=None)
_lock = Lock()


@contextmanager
def collecting() -> Iterator[dict[Variant, None]]:
    """Record the launches of this thread's kernels, in order, instead of launching; other threads still launch."""
    with _lock:
        _intercept_launches()
    found: dict[Variant, None] = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def _intercept_launches() -> None:
    """Wrap the `run` of every kernel, through which it is launched, to check whether its thread collects."""
    for kernel in all_kernels():
        if not getattr(kernel.run, "is_intercepted", False):
            kernel.run = _intercepted(kernel, kernel.run)


def _intercepted(kernel: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    def launch(*arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
        found = _collected.get()
        if found is None or warmup:
            return run(*arguments, grid=grid, warmup=warmup, **keywords)
        found[Variant.of(kernel, arguments, keywords)] = None
        return None

    launch.is_intercepted = True  # type: ignore[attr-defined]
    return launch
