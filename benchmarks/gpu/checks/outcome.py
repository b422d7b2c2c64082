"""Input and outcome of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from antiphon.ops import Device


@dataclass(frozen=True)
class Subject:
    """Device to check, and a real model (catalog name, file or folder) for the checks that need one."""

    device: Device
    model: str | None = None


@dataclass(frozen=True)
class Outcome:
    """Result line of a check. A check that cannot be judged here has no `passed`; its `figures` have the reason."""

    name: str
    passed: bool | None
    figures: str

    @property
    def verdict(self) -> str:
        return {True: "PASS", False: "FAIL", None: "----"}[self.passed]


Check = Callable[[Subject], Iterator[Outcome]]


def outcome_lines(outcomes: list[Outcome]) -> list[str]:
    """Format a line per outcome, in columns."""
    width = max((len(outcome.name) for outcome in outcomes), default=0)
    return [f"{outcome.verdict}  {outcome.name.ljust(width)}  {outcome.figures}" for outcome in outcomes]
