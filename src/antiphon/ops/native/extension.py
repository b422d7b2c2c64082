"""The compiled extension, and what it may use of this machine."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

_extension: ModuleType | None
try:
    _extension = import_module("antiphon.ops._native")
except ImportError:  # installed without a compiler
    _extension = None


def available() -> bool:
    """Whether the extension was built for this installation."""
    return _extension is not None


@cache
def extension() -> ModuleType:
    """The extension; `available()` must hold."""
    assert _extension is not None
    return _extension


def variants() -> list[str]:
    """The instruction sets whose kernels this processor can run, the best first; empty without the extension."""
    return _extension.variants() if _extension is not None else []


@cache
def default_threads() -> int:
    """One thread for each physical core that this process may run on, within its control group's quota."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        try:
            cores.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(cpu))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(len(cores), round(int(quota) / int(period))))
    except (OSError, ValueError):  # no control group, or "max"
        return max(1, len(cores))
