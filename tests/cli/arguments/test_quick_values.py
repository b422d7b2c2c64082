"""Options are converted as Typer converts them, without the import of its validation library."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from antiphon.cli.arguments.command import SETTINGS, PlainCommand
from antiphon.cli.arguments.quick_values import QuickValue


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


def outcome(arguments: list[str], quick: bool) -> tuple[int, str, dict[str, Any]]:
    """Exit code, output, and what a command of all kinds of options was called with."""
    app = typer.Typer(rich_markup_mode=None)
    got: dict[str, Any] = {}

    def command(
        name: Annotated[str, typer.Argument()],
        others: Annotated[list[str] | None, typer.Argument()] = None,
        count: Annotated[int, typer.Option("--count")] = 3,
        share: Annotated[float | None, typer.Option("--share")] = None,
        few: Annotated[int, typer.Option("--few", min=0, max=5)] = 1,
        part: Annotated[float, typer.Option("--part", min=0.0, max=1.0)] = 0.5,
        many: Annotated[int, typer.Option("--many", max=9, clamp=True)] = 1,
        file: Annotated[Path | None, typer.Option("--file")] = None,
        size: Annotated[Size, typer.Option("--size")] = Size.SMALL,
        tag: Annotated[list[str] | None, typer.Option("--tag")] = None,
        on: Annotated[bool, typer.Option("--on/--off")] = False,
    ) -> None:
        got.update(locals())
        del got["got"]

    kind = {"cls": PlainCommand, "context_settings": SETTINGS} if quick else {}
    app.command(**kind)(command)  # type: ignore[arg-type]
    result = CliRunner().invoke(app, arguments, prog_name="x")
    return result.exit_code, result.output.partition("Error")[2], got


CASES: list[list[str]] = [
    ["a"],
    ["a", "b", "c"],
    ["a", "--count", "7", "--share", "0.5", "--few", "5"],
    ["a", "--count", "-7", "--share", "nan"],
    ["a", "--file", "x/y", "--size", "large", "--on"],
    ["a", "--tag", "one", "--tag", "two", "--off"],
    ["", "--tag", ""],
    ["a", "--count", "many"],
    ["a", "--count", "1.5"],
    ["a", "--count", ""],
    ["a", "--share", "half"],
    ["a", "--few", "6"],
    ["a", "--few", "-1"],
    ["a", "--few", "0", "--part", "1"],
    ["a", "--part", "1.01"],
    ["a", "--part", "nan"],
    ["a", "--many", "99"],
    ["a", "--size", "huge"],
    [],
]


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
def test_as_typer_does(arguments: list[str]) -> None:
    quick, usual = outcome(arguments, True), outcome(arguments, False)
    assert repr(quick) == repr(usual)  # NaN is not equal to itself
    assert {name: type(value) for name, value in quick[2].items()} == {n: type(v) for n, v in usual[2].items()}


def test_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[object] = []
    convert = QuickValue.coerce
    monkeypatch.setattr(
        QuickValue, "coerce", lambda self, value, param, ctx: used.append(value) or convert(self, value, param, ctx)
    )
    outcome(["a"], True)
    assert used or not hasattr(typer.core.TyperOption, "_runtime_param")
