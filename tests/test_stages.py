"""What the test commands say about their stages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import stages

COMMANDS = {"quiet": "exit 0", "failing": "exit 3"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    stages.main(["begin"])
    return tmp_path


def test_a_stage_has_the_status_of_its_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert [stages.main(["run", name, "sh", "-c", command]) for name, command in COMMANDS.items()] == [0, 3]
    assert "=== failing:" in capfd.readouterr().out
    stages.main(["report", "15"])
    out = capfd.readouterr().out
    assert "quiet" in out and "failing" in out and "of 15\n" in out


def test_slow_tests_without_a_reason_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    tests = [
        {"test": "a::brief", "setup": 9.0, "call": 0.1, "reason": ""},
        {"test": "a::explained", "call": 8.0, "reason": "it listens to a recording"},
        {"test": "a::unexplained", "call": 7.0, "reason": ""},
    ]
    for stage, first in (("fast", "{times}"), ("slow", "{times}")):
        stages.main(["run", stage, "sh", "-c", f"echo '{json.dumps(tests)}' > {first}"])
    stages.main(["report", "0"])
    out = capfd.readouterr().out
    slowest, _, unexplained = out.partition("without a reason")
    assert slowest.index("a::brief") < slowest.index("a::explained") < slowest.index("a::unexplained")
    assert unexplained.count("a::unexplained") == 1 and "a::explained" not in unexplained and "fast" in unexplained
    assert "OVER BUDGET" in out


def test_what_is_none_of_its_commands_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["run", "alone"]) == 2
    assert "stages.py report MINUTES" in capfd.readouterr().err
