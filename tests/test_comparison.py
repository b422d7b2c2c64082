"""docs/comparison.md: its claims about this program are looked up in the program, and its figures in RESULTS.md."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import typer
from starlette.routing import Route, WebSocketRoute

from antiphon.cli.app import COMMANDS, app
from antiphon.device_names import check_device_name
from antiphon.errors import AntiphonError
from antiphon.models.base.model import CausalLM
from antiphon.models.registry import architectures
from antiphon.server.app import ROUTERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
#: Names in the cells of the column of Antiphon.
CODE = re.compile(r"`([^`]+)`")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without the header."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


FEATURES, FIGURES = rows("Features"), rows("Measured with the same work")


@cache
def paths() -> frozenset[str]:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, Route | WebSocketRoute)]
    return frozenset(route.path for route in routes)


@cache
def serve_options() -> frozenset[str]:
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return frozenset(option for parameter in serve.params for option in parameter.opts)


def is_device(name: str) -> bool:
    try:
        check_device_name(name)
    except AntiphonError:
        return False
    return True


def exists(name: str) -> bool:
    """Return whether a name of the table is a route, a command, an option of `serve`, a device or an architecture."""
    if name.startswith("/"):
        return name in paths()
    if name.startswith("--"):
        return name in serve_options()
    if name.startswith("antiphon "):
        return name.removeprefix("antiphon ") in COMMANDS
    return name in architectures() or is_device(name)


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row[0])
def test_features_of_this_program_exist_or_are_missing_as_the_table_says(row: list[str]) -> None:
    assert len(row) == 8
    names = CODE.findall(row[1])
    assert names, f"{row[0]}: the cell names nothing that could be looked up"
    wanted = not row[1].startswith("no ")
    assert [name for name in names if exists(name) is not wanted] == []


def test_every_family_of_chat_models_is_listed() -> None:
    (cell,) = (row[1] for row in FEATURES if row[0] == "families of chat models")
    generating = {name for name, model in architectures().items() if issubclass(model, CausalLM)}
    assert set(CODE.findall(cell)) == generating - {"gemma3_text", "whisper"}  # another name of gemma3, and no chats


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: re.sub(r"\[|\]\(.*?\)", "", row[0]))
def test_figures_are_those_of_one_line_of_the_results(row: list[str]) -> None:
    numbers = [cell.rpartition(" ")[2] for cell in row[1:3]]
    patterns = [rf"(?<![\d.,]){re.escape(number)}(?!\d)" for number in numbers]
    assert any(all(re.search(pattern, line) for pattern in patterns) for line in RESULTS), numbers
    ours, theirs = (float(number.replace(",", "")) for number in numbers)
    ratio = ours / theirs if "tok/s" in row[0] else theirs / ours
    assert float(row[3]) == pytest.approx(ratio, rel=0.015)


def test_names_that_do_not_exist_are_noticed() -> None:
    assert all(map(exists, ("/", "/v1/realtime", "/admin/models", "antiphon talk", "--adapter", "cuda", "whisper")))
    assert not any(map(exists, ("/v1/audio", "antiphon sing", "--no-such-option", "tpu", "mamba")))
