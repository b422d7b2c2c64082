"""The machine that a benchmark runs on, in words."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def machine() -> str:
    return f"{platform.system()} {platform.machine()}"


def environment() -> dict[str, str | int]:
    """What may explain a figure. Nothing here names the machine or its user."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": cores,
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
