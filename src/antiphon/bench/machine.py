"""Description of the machine that a benchmark runs on."""

from __future__ import annotations

import os
import platform

from antiphon.processor import processor_name


def machine() -> str:
    return f"{platform.system()} {platform.machine()}"


def environment() -> dict[str, str | int]:
    """Return facts that may explain a figure, without names of the machine or its user."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor_name(),
        "cores": cores,
        "python": platform.python_version(),
    }
