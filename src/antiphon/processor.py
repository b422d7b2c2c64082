"""The name of this machine's processor. Needs no tensor library."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def processor_name() -> str:
    """Return the processor's name as the system reports it, else its architecture."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
