"""`OptionGroup`: options shared by several commands, passed to each as a single parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, get_type_hints


class OptionGroup:
    """Options declared as annotated attributes with defaults. An instance holds the values given to a command."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(get_type_hints(cls))


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer in which each parameter that is a group is replaced by the group's options."""
    groups: dict[str, list[str]] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if not (isinstance(hint, type) and issubclass(hint, OptionGroup)):
            parameters.append(parameter.replace(kind=kind, annotation=hint))
            continue
        options = get_type_hints(hint, include_extras=True)
        groups[parameter.name] = list(options)
        for name, annotation in options.items():
            parameters.append(inspect.Parameter(name, kind, default=getattr(hint, name), annotation=annotation))
    if not groups:
        return command

    @wraps(command)
    def run(**given: Any) -> None:
        made = {group: hints[group](**{name: given.pop(name) for name in names}) for group, names in groups.items()}
        command(**given, **made)

    set_parameters(run, parameters)
    return run


def set_parameters(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Give a command for Typer these parameters in place of its own."""
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typeshed lacks the attribute
