"""Options given on the command line, without defaults: a server's defaults fill the rest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import typer

from antiphon.cli.remote.address import ServerAddress
from antiphon.errors import UsageError

#: Options that select the server, and those that have the same meaning everywhere.
SERVER_OPTIONS = ("base_url", "api_key_file", "local", "verbose")


@dataclass(frozen=True)
class Given:
    """Option values by parameter name. `given` has those that the user wrote; `every` also has the defaults."""

    given: dict[str, Any]
    every: dict[str, Any]
    flags: dict[str, str]

    @classmethod
    def of(cls, context: typer.Context) -> Given:
        every = dict(context.params)
        sources = {name: context.get_parameter_source(name) for name in every}
        given = {
            name: value
            for name, value in every.items()
            if (source := sources[name]) is not None and source.name == "COMMANDLINE"
        }
        flags = {parameter.name: parameter.opts[0] for parameter in context.command.params if parameter.name}
        return cls(given, every, flags)

    def allow(self, names: Collection[str], server: ServerAddress) -> None:
        """Raise UsageError if the user gave an option that has no effect with a server."""
        wrong = self.without_effect(names)
        if wrong:
            flags, have = " and ".join(wrong), "has" if len(wrong) == 1 else "have"
            is_flag = "base_url" in self.given
            source = "--base-url" if is_flag else "ANTIPHON_BASE_URL"
            instead = f"remove {flags} or --base-url" if is_flag else "add --local to load the model here"
            raise UsageError(f"{flags} {have} no effect with the server {server.url} ({source}); {instead}")

    def without_effect(self, names: Collection[str]) -> list[str]:
        """Return the flags of given options that a server does not support; `names` are the supported ones."""
        return [self.flags[name] for name in self.given if name not in names and name not in SERVER_OPTIONS]

    def select(self, names: Collection[str]) -> dict[str, Any]:
        """Return the values of `names` that the user gave."""
        return {name: value for name, value in self.given.items() if name in names}
