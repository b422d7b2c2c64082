"""What a check is given and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from antiphon.ops import Device


@dataclass(frozen=True)
class Subject:
    """What is checked: a device, and a real model (a catalog name, file or folder) where a check needs one."""

    device: Device
    model: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The line of a check. `passed` is None where it could not be judged here; `figures` say why."""

    name: str
    passed: bool | None
    figures: str

    @property
    def verdict(self) -> str:
        return {True: "PASS", False: "FAIL", None: "----"}[self.passed]


Check = Callable[[Subject], Iterator[Outcome]]


def outcome_lines(outcomes: list[Outcome]) -> list[str]:
    """A line for each, in columns."""
    width = max((len(outcome.name) for outcome in outcomes), default=0)
    return [f"{outcome.verdict}  {outcome.name.ljust(width)}  {outcome.figures}" for outcome in outcomes]
