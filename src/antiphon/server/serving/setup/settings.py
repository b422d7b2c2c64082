"""Settings of a server from four sources, in this order: flag, environment variable, file, default."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon import environment
from antiphon.errors import InvalidRequestError
from antiphon.server.serving.setup.option import OptionKind
from antiphon.server.serving.setup.options import BY_KEY, BY_NAME, OPTIONS, SECTIONS


@dataclass(frozen=True)
class Setting:
    value: Any
    #: Source of the value, for messages.
    origin: str


class ServerSettings:
    """Values of all options. `settings["port"]` is the value of one; `origin("port")` is its source."""

    def __init__(self, found: Mapping[str, Setting]) -> None:
        self._found = dict(found)

    def __getitem__(self, name: str) -> Any:
        return self._found[name].value

    def origin(self, name: str) -> str:
        return self._found[name].origin

    @classmethod
    def gather(cls, flags: Mapping[str, Any], config_file: Path | None = None) -> ServerSettings:
        """Collect the settings. None in `flags` means not given; without a file, `ANTIPHON_CONFIG` may name one."""
        path = config_file or environment.config_file()
        in_file = {} if path is None else read_file(path)
        found = {}
        for option in OPTIONS:
            given = flags.get(option.name)
            text = environment.option(option.variable)
            if given is not None and given != []:
                origin = "an argument" if option.name == "models" else option.switch
                value = option.pairs(given, origin) if option.kind is OptionKind.TABLE else given
                found[option.name] = Setting(option.check(value, origin), origin)
            elif text is not None:
                found[option.name] = Setting(option.from_text(text, option.variable), option.variable)
            elif option.name in in_file:
                found[option.name] = Setting(in_file[option.name], str(path))
            else:
                found[option.name] = Setting(option.default, "default")
        return cls(found)

    def toml(self) -> str:
        """Return the settings as a configuration file, with their origins as comments."""
        lines = []
        for section in SECTIONS:
            lines.append(f"[{section}]")
            for option in OPTIONS:
                if option.section != section:
                    continue
                setting = self._found[option.name]
                if setting.value is None:
                    lines.append(f"# {option.name} is not set{f': {option.shown}' if option.shown else ''}")
                else:
                    lines.append(f"{option.name} = {toml_value(setting.value)}  # {setting.origin}")
            lines.append("")
        return "\n".join(lines).rstrip() + "\n"


def read_file(path: Path) -> dict[str, Any]:
    """Read a configuration file into values by option name. An unknown key raises an error with similar keys."""
    try:
        with path.open("rb") as stream:
            tables = tomllib.load(stream)
    except OSError as error:
        raise InvalidRequestError(f"cannot read the configuration {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"the configuration {path} is not TOML: {error}") from error
    values = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            raise _unknown(path, section, [*SECTIONS, *BY_KEY])
        if not isinstance(table, dict):
            raise InvalidRequestError(f"{path}: {section!r} is a section, written [{section}]")
        for name, value in table.items():
            option = BY_KEY.get(f"{section}.{name}")
            if option is None:
                raise _unknown(path, f"{section}.{name}", list(BY_KEY))
            values[name] = option.check(value, str(path))
    return values


def _unknown(path: Path, key: str, known: list[str]) -> InvalidRequestError:
    """Build the error for an unknown key, with similar keys, also from other sections."""
    name = key.rpartition(".")[2]
    near = [BY_NAME[name].key] if name in BY_NAME else difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    if not near:
        near = [BY_NAME[match].key for match in difflib.get_close_matches(name, list(BY_NAME), n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are the sections {', '.join(SECTIONS)}"
    return InvalidRequestError(f"the configuration {path} has the unknown key {key!r}: {hint}")


def toml_value(value: Any) -> str:
    """Format a value as TOML, which writes strings, numbers and lists as JSON does."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)} = {toml_value(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(value, ensure_ascii=False)
