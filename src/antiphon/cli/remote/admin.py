"""Clients of the `/admin` routes of running servers, and the key for each.

A token written by a local server is sent only to that server: scheme, port and loopback host must match.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from antiphon import environment
from antiphon.cli.remote.address import ServerAddress, checked_key, key_in
from antiphon.cli.remote.client import Client, ServerError
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.server.serving.setup.run_file import LocalServer, local_servers
from antiphon.server.web.access.hosts import is_loopback

NO_SERVER = "you have no server running on this machine; start one with `antiphon serve`, or give --base-url"


class AdminServer:
    """Client of a server's `/admin` routes."""

    def __init__(self, address: ServerAddress) -> None:
        self.url = address.url
        self._client = Client(address)

    def models(self) -> dict[str, Any]:
        """Return the answer of `GET /admin/models`, with the lists `models` and `catalog` and the table `memory`."""
        with self._client.get("/admin/models") as response:
            content = response.json()
        if not isinstance(content, dict) or not isinstance(content.get("models"), list):
            raise ServerError(f"{self.url} is not an Antiphon server: it lists no models under /admin/models")
        return content

    def unload(self, model: str, force: bool) -> dict[str, Any]:
        with self._client.post("/admin/models/unload", {"model": model, "force": force}) as response:
            card: dict[str, Any] = response.json()
        return card

    def holds(self, model: str) -> bool:
        """Return whether a model with this name or alias, optionally with `:latest`, is in the server's memory."""
        names = {
            name for card in self.models()["models"] if is_resident(card) for name in (card["name"], *card["aliases"])
        }
        return model in names or model.removesuffix(":latest") in names


def is_resident(card: dict[str, Any]) -> bool:
    return bool(card["state"] != "unloaded")


def admin_servers(base_url: str | None, admin_key_file: Path | None) -> list[AdminServer]:
    """Return the server at the given address or at ANTIPHON_BASE_URL, or else all of this user's local servers."""
    key = key_in(admin_key_file, "--admin-key-file") if admin_key_file is not None else environment.admin_key()
    checked_key(key, "ANTIPHON_ADMIN_KEY")
    running = local_servers()
    origin = "--base-url" if base_url is not None else "ANTIPHON_BASE_URL"
    given = base_url if base_url is not None else environment.base_url()
    if given is not None:
        return [AdminServer(_with_key(ServerAddress.parse(given, None, origin), key, running))]
    if not running:
        raise InvalidRequestError(NO_SERVER)
    servers: list[AdminServer] = []
    locked: list[InvalidRequestError] = []
    for server in running:
        try:
            servers.append(AdminServer(_with_key(ServerAddress.parse(server.url), key, running)))
        except InvalidRequestError as error:
            locked.append(error)
    if not servers:
        raise locked[0]
    for problem in locked:
        print(f"antiphon: {problem}", file=sys.stderr)
    return servers


def _with_key(address: ServerAddress, key: str | None, running: list[LocalServer]) -> ServerAddress:
    """Return the address with the given key, or else with the token of the local server at that address."""
    if key is not None:
        return replace(address, api_key=key)
    found = next((server for server in running if _is_at(server, address)), None)
    if found is not None and found.admin_token is not None:
        # The token goes to the address that the server wrote: `localhost` may resolve to another one.
        return replace(ServerAddress.parse(found.url), api_key=found.admin_token)
    if found is not None:
        raise InvalidRequestError(f"{address.url} was started with an admin key file; give a key with --admin-key-file")
    return address


def _is_at(server: LocalServer, address: ServerAddress) -> bool:
    own = ServerAddress.parse(server.url)
    same_host = own.host == address.host or (address.host == "localhost" and is_loopback(own.host))
    return same_host and (own.scheme, own.port) == (address.scheme, address.port) and not address.prefix


def the_server_of(model: str, servers: list[AdminServer]) -> AdminServer:
    """Return the server that holds the model; raise InvalidRequestError unless exactly one does."""
    if len(servers) == 1:
        return servers[0]
    holders = []
    for server in servers:
        try:
            if server.holds(model):
                holders.append(server)
        except AntiphonError:
            continue  # another server may hold the model
    if len(holders) == 1:
        return holders[0]
    urls = ", ".join(server.url for server in holders or servers)
    what = "servers hold" if holders else "servers run, and none of them holds"
    raise InvalidRequestError(f"{len(holders or servers)} {what} {model!r}; choose one with --base-url: {urls}")
