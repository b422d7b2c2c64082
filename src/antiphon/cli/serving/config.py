"""`antiphon config`: the settings that a server would have, and the origin of each."""

from __future__ import annotations

from typing import Any

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.serving.flags import takes_server_options


@takes_server_options
def config(**given: Any) -> None:
    """Print the settings that `antiphon serve` would have, as TOML, each with its origin.

    The origin is a flag, an environment variable, the configuration file or the default. Takes the same options.
    """
    from antiphon.server.serving.setup.settings import ServerSettings

    with usage_errors():
        settings = ServerSettings.gather(given, given["config"])
    typer.echo(settings.toml(), nl=False)
