"""`OptionGroup`: options that several commands have in common, as one parameter of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, get_type_hints


class OptionGroup:
    """Options declared as annotated attributes with defaults. An instance has the values that a command got."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(get_type_hints(cls))


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command as Typer takes it: where it takes a group, it has a parameter for each option of the group."""
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

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
