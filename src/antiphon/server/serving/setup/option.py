"""`Option`: one option of a server, and how its values are read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from antiphon.errors import InvalidRequestError

#: Values of an environment variable that turn a switch off; any other value turns it on.
FALSE = ("0", "false", "no", "off")


class OptionKind(Enum):
    """Type of an option's value, written as TOML's own type in the file and as text in a variable."""

    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SWITCH = "true or false"
    LIST = "a list of strings"
    TABLE = "a table of strings"


@dataclass(frozen=True)
class Option:
    """Option of a server. `key` is `section.name`; the flag is `--name` and the variable `ANTIPHON_NAME`."""

    key: str
    kind: OptionKind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    #: Flag, if it differs from the name. The flag of a list takes one item.
    flag: str | None = None
    #: Default as the help shows it, if it is not a plain value.
    shown: str | None = None
    metavar: str | None = None
    #: Entries of a table that need no value.
    presets: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    @property
    def switch(self) -> str:
        return f"--{self.flag or self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"ANTIPHON_{self.name.upper()}"

    def from_text(self, text: str, origin: str) -> Any:
        """Parse an environment variable: lists are separated by commas, tables are `name=value` pairs."""
        match self.kind:
            case OptionKind.TEXT:
                return self.check(text, origin)
            case OptionKind.SWITCH:
                return text.strip().lower() not in FALSE
            case OptionKind.WHOLE | OptionKind.NUMBER:
                try:
                    return self.check(int(text) if self.kind is OptionKind.WHOLE else float(text), origin)
                except ValueError:
                    raise self._wrong(text, origin) from None
        items = [item.strip() for item in text.split(",") if item.strip()]
        return self.check(items if self.kind is OptionKind.LIST else self.pairs(items, origin), origin)

    def pairs(self, items: list[str], origin: str) -> dict[str, str]:
        """Parse `name=value` items into a table."""
        table = {}
        for item in items:
            if item in self.presets:
                table[item] = ""
                continue
            name, separator, value = item.partition("=")
            if not (name and separator and value):
                raise InvalidRequestError(f"{self.name} from {origin} has {item!r}; an entry must be NAME=VALUE")
            table[name.strip()] = value.strip()
        return table

    def check(self, value: Any, origin: str) -> Any:
        """Return the value if it is valid; otherwise raise an error that names its origin."""
        if value is None:
            return None
        accepted = {
            OptionKind.TEXT: isinstance(value, str),
            OptionKind.WHOLE: type(value) is int,
            OptionKind.NUMBER: type(value) in (int, float),
            OptionKind.SWITCH: type(value) is bool,
            OptionKind.LIST: isinstance(value, list) and all(isinstance(item, str) for item in value),
            OptionKind.TABLE: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        }
        if not accepted[self.kind]:
            raise self._wrong(value, origin)
        if self.choices and value not in self.choices:
            choices = ", ".join(self.choices)
            raise InvalidRequestError(f"{self.name} from {origin} is {value!r}; it must be one of: {choices}")
        low, high = self.minimum, self.maximum
        if low is not None and value < low:
            raise InvalidRequestError(f"{self.name} from {origin} is {value}; it must be {low:g} or more")
        if high is not None and value > high:
            raise InvalidRequestError(f"{self.name} from {origin} is {value}; it must be {high:g} or less")
        return value

    def _wrong(self, value: Any, origin: str) -> InvalidRequestError:
        return InvalidRequestError(f"{self.name} from {origin} is {value!r}; it must be {self.kind.value}")
