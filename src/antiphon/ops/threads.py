"""Number of threads of an operation: one per core, or a single one where several operations run in parallel."""

from __future__ import annotations

import os
import threading
from functools import cache
from pathlib import Path

import torch

_own = threading.local()
_torch_threads = threading.Lock()


def default_threads() -> int:
    """Return the number of threads that operations called from the current thread use."""
    return getattr(_own, "count", 0) or machine_threads()


def use_one_thread() -> None:
    """Run operations called from the current thread, ours and torch's, on this thread alone from now on."""
    _own.count = 1
    with _torch_threads:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        # set_num_threads also changes the default of threads that have not called torch yet: another thread resets it.
        other = threading.Thread(target=torch.set_num_threads, args=(before,))
        other.start()
        other.join()


@cache
def machine_threads() -> int:
    """Count the physical cores that this process may run on, at most its control group's quota."""
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
