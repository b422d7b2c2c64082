"""`antiphon config`: the settings that a server would have, and where each comes from."""

from __future__ import annotations

from typing import Any

import typer

from antiphon.cli.server_flags import plain, takes_server_options


@takes_server_options
def config(**given: Any) -> None:
    """Print the settings that `antiphon serve` would have, as TOML, each with its origin: a flag, an environment
    variable, the configuration file or the default. Takes the same options.
    """
    from antiphon.server.settings import Settings

    typer.echo(Settings.gather(plain(given), given["config"]).toml(), nl=False)
