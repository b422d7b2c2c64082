"""Memory of this process, and its return to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import resource
import sys
import traceback

MADV_POPULATE_READ = 22


def resident_bytes() -> int:
    """Return the bytes that this process has in memory; the peak on systems that report no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def return_memory() -> None:
    """Return freed memory to the system; the allocator would keep some of it for later."""
    gc.collect()
    trim_memory()


def trim_memory() -> None:
    """Make the allocator return freed memory that it keeps."""
    with contextlib.suppress(AttributeError, OSError):  # allocators other than glibc's
        ctypes.CDLL(None).malloc_trim(0)


def drop_locals(error: BaseException) -> None:
    """Free the local variables of the functions that raised an error and its causes; the traceback keeps its lines."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def read_pages(address: int, size: int) -> None:
    """Read the pages of a span of mapped memory now, rather than one by one on first use."""
    page = mmap.PAGESIZE
    start = address // page * page
    if sys.platform == "linux" and size:
        span = ctypes.c_void_p(start), ctypes.c_size_t(address + size - start)
        if ctypes.CDLL(None).madvise(*span, MADV_POPULATE_READ):  # fails on kernels older than 5.14
            ctypes.CDLL(None).madvise(*span, mmap.MADV_WILLNEED)


def release_pages(address: int, size: int) -> None:
    """Return the whole pages inside a span of private anonymous memory; they read as zeros afterwards."""
    page = mmap.PAGESIZE
    start, end = -(-address // page) * page, (address + size) // page * page
    if sys.platform == "linux" and end > start:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
