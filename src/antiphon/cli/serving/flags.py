"""Flags for every option of a server, generated from the table of options, for the commands that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from antiphon.cli.arguments.groups import set_parameters
from antiphon.server.serving.setup.option import Option, OptionKind
from antiphon.server.serving.setup.options import MODELS, OPTIONS

TYPES: dict[OptionKind, Any] = {
    OptionKind.TEXT: str | None,
    OptionKind.WHOLE: int | None,
    OptionKind.NUMBER: float | None,
    OptionKind.SWITCH: bool | None,
    OptionKind.LIST: list[str] | None,
    OptionKind.TABLE: list[str] | None,
}


def takes_server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a keyword-only command an argument for the models and a flag for every other server option.

    Omitted options arrive as None, so that the environment, the file and the defaults can follow.
    """
    annotations: dict[str, Any] = {
        "models": Annotated[list[str] | None, typer.Argument(metavar="MODEL", help=MODELS.help)],
        "config": Annotated[Path | None, typer.Option("--config", help="Configuration file (TOML).")],
    }
    for option in OPTIONS:
        if option is not MODELS:
            annotations[option.name] = Annotated[_type(option), _flag(option)]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind, default=None, annotation=a) for name, a in annotations.items()]
    set_parameters(command, parameters)
    return command


def _type(option: Option) -> Any:
    if not option.choices:
        return TYPES[option.kind]
    return Literal[option.choices] | None


def _flag(option: Option) -> Any:
    plain = option.kind not in (OptionKind.LIST, OptionKind.TABLE) and option.default is not None
    shown = option.shown or (_text(option.default) if plain else False)
    name = option.switch
    if option.kind is OptionKind.SWITCH:
        name = f"{name}/--no-{name.removeprefix('--')}"
    return typer.Option(name, help=option.help, show_default=shown, metavar=option.metavar)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
