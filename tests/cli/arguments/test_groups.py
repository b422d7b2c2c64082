"""Groups of options are parameters of a command as far as Typer and the user see them."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from antiphon.cli.arguments.answer_options import Sampling
from antiphon.cli.arguments.groups import OptionGroup, with_groups
from support.programs.command_line import Invoke


class Size(OptionGroup):
    width: Annotated[int, typer.Option(help="How wide.")] = 3
    height: Annotated[int | None, typer.Option(min=1)] = None


class Box(Size):
    height: Annotated[int | None, typer.Option(help="Another help.")] = 7
    depth: Annotated[int, typer.Option()] = 1


def called(*arguments: str) -> tuple[str, Box, bool]:
    got = []

    def command(name: str, *, size: Box, is_open: Annotated[bool, typer.Option("--open")] = False) -> None:
        """A command."""
        got.append((name, size, is_open))

    app = typer.Typer(rich_markup_mode=None)
    app.command()(with_groups(command))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return got[0] if got else (result.output, Box(), False)


def test_a_command_gets_its_groups() -> None:
    name, size, is_open = called("x", "--depth", "4", "--open", "--width", "5")
    assert (name, vars(size), is_open) == ("x", {"width": 5, "height": 7, "depth": 4}, True)
    assert Box.names() == ("width", "height", "depth")


def test_help_lists_the_options_in_the_order_of_the_groups() -> None:
    text, _, _ = called("--help")
    assert "A command." in text and "Another help." in text
    positions = [text.index(flag) for flag in ("--width", "--height", "--depth", "--open")]
    assert positions == sorted(positions)


def test_a_command_without_groups_is_left_alone() -> None:
    def command(name: str) -> None: ...

    assert with_groups(command) is command


@pytest.mark.parametrize("command", ["run", "chat", "batch"])
def test_commands_that_answer_take_every_sampling_option(command: str, invoke: Invoke) -> None:
    text = invoke(command, "--help").out
    assert [name for name in Sampling.names() if f"--{name.replace('_', '-')}" not in text] == []
