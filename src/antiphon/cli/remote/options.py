"""Options for the server that a command uses instead of loading a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

import typer

from antiphon import environment
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.remote.address import ServerAddress, api_key
from antiphon.errors import UsageError

NO_SERVER_FOR_KEY = "--api-key-file is for a server; give its address with --base-url"


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
    local: Annotated[
        bool,
        typer.Option(
            "--local", help="Load the model here, even if a server runs on this machine or ANTIPHON_BASE_URL is set."
        ),
    ] = False

    def named_server(self) -> ServerAddress | None:
        """Return the server that the user named, or None."""
        if self.local and self.base_url is not None:
            raise UsageError("--local and --base-url exclude each other")
        if self.base_url is not None and not self.base_url.strip():
            raise UsageError("--base-url is empty; to ignore ANTIPHON_BASE_URL, use --local")
        origin = "ANTIPHON_BASE_URL" if self.base_url is None else "--base-url"
        url = None if self.local else self.base_url or environment.base_url()
        if url is not None:
            return ServerAddress.parse(url, api_key(self.api_key_file), origin)
        if self.local and self.api_key_file is not None:
            raise UsageError(NO_SERVER_FOR_KEY)
        return None

    def server(
        self,
        context: typer.Context,
        options: Collection[str],
        models: Mapping[str, str],
        *,
        is_default: bool = False,
        stays_here: bool = False,
    ) -> ServerAddress | None:
        """Return the server that the user named, or else a running one that can compute, or None for this process.

        `options` are those that a server supports: any other given option is an error with a named server, and
        otherwise keeps the command here, as does `stays_here`. `models` are the references by task; without a named
        server, a model of another task is rejected. Print which server was found; `is_default` says that the models are
        the command's default.
        """
        from antiphon.cli.remote.given import Given

        named, given = self.named_server(), Given.of(context)
        if named is not None:
            given.allow(options, named)
            return named
        from antiphon.cli.remote.running import running_server
        from antiphon.cli.terminal.notes import note
        from antiphon.weights.catalog.model_tasks import check_reference

        for task, model in models.items():
            check_reference(model, task)
        found = None
        if not (self.local or stays_here or given.without_effect(options)):
            found = running_server(models.values(), self.api_key_file)
        if found is None and self.api_key_file is not None:
            raise UsageError(f"{NO_SERVER_FOR_KEY} (no server that can compute this was found on this machine)")
        by_default = f"{', '.join(models.values())}, the default" if is_default else ""
        if found is not None:
            answered = f"answered by the server at {found.url}; --local loads the model here"
            note(f"{by_default}, {answered}" if by_default else answered)
        elif by_default:
            note(f"{by_default}; `antiphon list` shows other models")
        return found
