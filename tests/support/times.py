"""Record how long each test takes, for the report that `make test` and `make test-all` end with.

A stage of the Makefile runs pytest with `--times FILE`. `stages.py` reads the files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest


class TestTimes:
    """Pytest plugin that writes seconds per test and phase, and the reasons of tests marked `long`, to a JSON file."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, dict[str, float]] = defaultdict(dict)
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid][report.when] = round(report.duration, 3)
        for name, value in report.user_properties:
            if name == "long":
                self._reasons[report.nodeid] = str(value)

    def pytest_sessionfinish(self) -> None:
        tests = [
            {"test": name, **phases, "reason": self._reasons.get(name, "")} for name, phases in self._seconds.items()
        ]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(tests), encoding="utf-8")


def mark_reasons(items: list[pytest.Item]) -> None:
    """Attach the reason of each test marked `long` to its report; raise for a marker without a reason."""
    for item in items:
        marker = item.get_closest_marker("long")
        if marker is None:
            continue
        if len(marker.args) != 1 or len(str(marker.args[0]).split()) < 3:
            raise pytest.UsageError(f'{item.nodeid}: @pytest.mark.long("reason") needs a reason in words')
        item.user_properties.append(("long", str(marker.args[0])))
