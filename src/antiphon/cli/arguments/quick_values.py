"""Option values converted without Typer's validation library, whose import takes 0.1 s of every command.

Texts, choices, numbers, switches, paths and lists of texts are converted here. All other types and all invalid values
are left to Typer, so that its error messages stay.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

CONVERTERS: dict[Any, Callable[[Any], Any]] = {str: str, int: int, float: float, bool: bool, Path: Path}
#: Attributes of a parameter's description that need Typer's own conversion.
CONDITIONS = ("clamp", "parser", "click_type", "exists", "resolve_path", "path_type", "formats")


class QuickValue:
    """Replacement for the object that converts a Typer parameter's values; builds Typer's own only if needed."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter
        self._annotation = parameter.type_descriptor.annotation
        info = parameter.type_descriptor.parameter_info
        self._is_plain = not any(getattr(info, name, None) for name in CONDITIONS)
        self._range = (getattr(info, "min", None), getattr(info, "max", None))

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_multiple = param.multiple or param.nargs == -1
        if value is None:
            return () if is_multiple else None
        if self._is_plain:
            try:
                return self._converted(value, is_multiple)
            except (TypeError, ValueError):
                pass
        from typer._coercion import build_runtime_param

        return build_runtime_param(self._parameter.type_descriptor).coerce(value, param=param, ctx=ctx)

    def _converted(self, value: Any, is_multiple: bool) -> Any:
        """Return the converted value; raise ValueError unless its type is plain and its value valid."""
        if is_multiple:
            if self._annotation == list[str] and all(isinstance(item, str) for item in value):
                return list(value)
            raise ValueError
        convert = CONVERTERS.get(self._annotation)
        if convert is not None and isinstance(value, str | self._annotation):
            if convert is bool and not isinstance(value, bool):
                raise ValueError
            return self._in_range(convert(value))
        if get_origin(self._annotation) is Literal and value in get_args(self._annotation):
            return value
        raise ValueError

    def _in_range(self, value: Any) -> Any:
        low, high = self._range
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            raise ValueError
        return value


def use_quick_values(parameters: list[Any]) -> None:
    """Install quick conversion for a command's parameters; releases of Typer without that library stay unchanged."""
    for parameter in parameters:
        if hasattr(parameter, "_runtime_param") and hasattr(parameter, "type_descriptor"):
            parameter._runtime_param = QuickValue(parameter)
