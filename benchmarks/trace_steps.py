"""Steps in an engine's trace, for benchmarks that count them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from antiphon import Engine


def trace_steps(engine: Engine, since: float = 0.0) -> list[dict[str, Any]]:
    """Return the events of steps that began at `since` microseconds or later, in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        engine.write_trace(path)
        events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["name"] == "step" and event["ts"] >= since]
