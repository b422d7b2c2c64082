"""What this process holds in memory, and giving it back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys


def resident_bytes() -> int:
    """Of this process, now; its peak where the system tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def return_memory() -> None:
    """Give freed memory back to the system; the allocator would keep some of it for later."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # where the allocator is not glibc's
        ctypes.CDLL(None).malloc_trim(0)
