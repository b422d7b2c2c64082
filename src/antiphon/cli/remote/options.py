"""Options for the server that a command uses instead of loading a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon import environment
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.remote.address import ServerAddress, api_key
from antiphon.errors import UsageError


class ServerOptions(OptionGroup):
    """Options that select a server."""

    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Use this running server instead of loading the model (or set ANTIPHON_BASE_URL)."
        ),
    ] = None
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the server's API key (or set ANTIPHON_API_KEY).")
    ] = None
    local: Annotated[bool, typer.Option("--local", help="Load the model here even if ANTIPHON_BASE_URL is set.")] = (
        False
    )

    def server(self) -> ServerAddress | None:
        """Return the server to use, or None to compute in this process."""
        if self.local and self.base_url is not None:
            raise UsageError("--local and --base-url exclude each other")
        if self.base_url is not None and not self.base_url.strip():
            raise UsageError("--base-url is empty; to ignore ANTIPHON_BASE_URL, use --local")
        origin = "ANTIPHON_BASE_URL" if self.base_url is None else "--base-url"
        url = None if self.local else self.base_url or environment.base_url()
        if url is not None:
            return ServerAddress.parse(url, api_key(self.api_key_file), origin)
        if self.api_key_file is not None:
            raise UsageError("--api-key-file is for a server; give its address with --base-url")
        return None
