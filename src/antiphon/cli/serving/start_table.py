"""`StartTable`: seconds and memory of the steps of a server's start."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from antiphon.aligned import aligned
from antiphon.device_names import CPU

if TYPE_CHECKING:
    from antiphon.runtime.residency.resident import Resident
    from antiphon.server.serving.setup.launch_plan import LaunchPlan


class StartTable:
    """Table of a start's seconds and memory, printed once the last model has loaded or failed."""

    def __init__(self, plan: LaunchPlan, started: float) -> None:
        self._plan = plan
        self._started = started
        self._url = ""
        preloaded = {spec.name for spec in plan.config.models if spec.is_preloaded}
        self._num_left = len(preloaded) + sum(adapter.base in preloaded for adapter in plan.config.adapters)
        self._rows = [("", "STEP", "SECONDS", "MB")]
        self._failures: list[str] = []
        self._weight_bytes: Counter[str] = Counter()  # bytes by device

    def listening(self, url: str) -> None:
        self._url = url
        self._rows.append(("server", "listening", self._seconds(), ""))
        names = ", ".join(spec.name for spec in self._plan.config.models if spec.is_preloaded)
        loading = f"; loading {names}" if names else ""
        _print(f"Antiphon is listening on {url}{loading}")
        if not self._num_left:
            _print(self.text())

    def listening_for_wyoming(self, url: str) -> None:
        _print(f"Wyoming is listening on {url}")

    def add(self, model: Resident) -> None:
        loaded = model.loaded
        if loaded is not None:
            self._weight_bytes[loaded.device] += loaded.weight_bytes
            for step, seconds in loaded.seconds.items():
                size = _megabytes(loaded.weight_bytes) if step == "weights" else ""
                self._rows.append((model.name, step, f"{seconds:.2f}", size))
        elif model.error is not None:
            self._rows.append((model.name, "failed", "", ""))
            self._failures.append(f"{model.name} failed to load: {model.error}")
        else:
            self._rows.append((model.name, "not loaded", "", ""))
            self._failures.append(f"{model.name} is not loaded: no memory left beside the others; loaded on first use")
        self._num_left -= 1
        if not self._num_left:
            has_failed = any(step == "failed" for _, step, _, _ in self._rows)
            self._rows.append(("server", "not ready" if has_failed else "ready", self._seconds(), ""))
            _print(self.text())

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started:.2f}"

    def text(self) -> str:
        """Return the table, a line per model that is not loaded, the memory, and the addresses."""
        rows = [*self._rows, ("KV cache", "reserved", "", _megabytes(self._plan.kv_bytes))]
        lines = list(aligned(rows, left={0, 1}))
        weights, cache = self._weight_bytes.pop(CPU, 0), self._plan.kv_bytes
        lines += self._failures
        lines.append(
            f"memory: weights {_megabytes(weights)} MB + KV cache {_megabytes(cache)} MB = "
            f"{_megabytes(weights + cache)} MB of {_megabytes(self._plan.memory_bytes)} MB"
        )
        lines += [f"{device}: weights {_megabytes(size)} MB" for device, size in self._weight_bytes.items()]
        lines.append(f"API: {self._url}/v1")
        lines.append(f"web page: {self._url}")
        return "\n".join(lines)


def _megabytes(size: int) -> str:
    """Format bytes in mebibytes, the unit of --memory."""
    return f"{size / (1 << 20):,.1f}" if size < 10 << 20 else f"{size / (1 << 20):,.0f}"


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
