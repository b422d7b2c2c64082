"""Waiting for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 30.0, told: Callable[[], object] = str) -> None:
    """Until `condition` holds; a failure after `seconds` says what `told` returns."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.01)
