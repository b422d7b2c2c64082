"""`antiphon ps` and `antiphon stop`: models in the memory of running servers, and unloading them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.aligned import aligned
from antiphon.cli.terminal.sizes import megabytes

BaseURL = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="The server (or set ANTIPHON_BASE_URL); by default the servers of this user on this machine.",
    ),
]
AdminKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--admin-key-file",
        metavar="FILE",
        help="File with the server's admin key (or set ANTIPHON_ADMIN_KEY); not needed for a server of this user "
        "on this machine.",
    ),
]
HEADINGS = ("MODEL", "TASK", "STATE", "DEVICE", "MEMORY", "REQUESTS", "IDLE", "UNLOADS IN")
LEFT = (0, 1, 2, 3)


def ps(
    base_url: BaseURL = None,
    admin_key_file: AdminKeyFile = None,
    every: Annotated[bool, typer.Option("--all", help="Also list configured models that are not loaded.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models that running servers hold in memory."""
    from antiphon.cli.remote.admin import admin_servers, is_resident
    from antiphon.errors import AntiphonError

    servers = admin_servers(base_url, admin_key_file)
    listed: list[dict[str, Any]] = []
    failures: list[AntiphonError] = []
    for server in servers:
        try:
            content = server.models()
        except AntiphonError as error:
            failures.append(error)
            continue
        cards = [card for card in content["models"] if every or is_resident(card)]
        listed.append({"url": server.url, "models": cards, "memory": content.get("memory")})
    if as_json and listed:
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
    elif not as_json:
        typer.echo("\n\n".join(_table(server) for server in listed), nl=bool(listed))
    for failure in failures[:-1] if not listed else failures:
        print(f"antiphon: {failure}", file=sys.stderr)
    if failures and not listed:
        raise failures[-1]


def stop(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model that a server holds.")],
    force: Annotated[bool, typer.Option("--force", help="Also end the requests that use it.")] = False,
    base_url: BaseURL = None,
    admin_key_file: AdminKeyFile = None,
) -> None:
    """Unload a model from a running server. Its next use loads it again."""
    from antiphon.cli.remote.admin import admin_servers, is_resident, the_server_of
    from antiphon.cli.remote.client import ServerError

    server = the_server_of(model, admin_servers(base_url, admin_key_file))
    before = {card["name"]: card for card in server.models()["models"]}
    try:
        card = server.unload(model, force)
    except ServerError as error:
        if error.status == 409 and not force and "is used by" in str(error):
            raise ServerError(f"{error}; --force ends them", 409) from error
        raise
    name = card["name"]
    if name in before and not is_resident(before[name]):
        typer.echo(f"{name} was not loaded")
        return
    freed = (before.get(name, {}).get("charged_bytes") or 0) - (card.get("charged_bytes") or 0)
    typer.echo(f"{name} unloaded, {megabytes(freed)} freed")


def _table(server: dict[str, Any]) -> str:
    memory = server["memory"] or {}
    title = server["url"] + "".join(_used(device) for device in memory.get("devices") or [memory])
    if not server["models"]:
        return f"{title}\nno models loaded"
    rows = [HEADINGS, *(_row(card) for card in server["models"])]
    failures = [f"{card['name']}: {card['error']}" for card in server["models"] if card.get("error")]
    return "\n".join([title, *aligned(rows, LEFT), *failures])


def _used(memory: dict[str, Any]) -> str:
    """Format the memory that weights and cache take of a device's budget; the CPU is not named."""
    used = sum(memory.get(name) or 0 for name in ("weight_bytes", "kv_bytes"))
    budget, name = memory.get("budget_bytes"), memory.get("device", "cpu")
    label = "" if name == "cpu" else f"{name} "
    return f"  {label}{used / 1e6:,.0f} of {budget / 1e6:,.0f} MB used" if budget else ""


def _row(card: dict[str, Any]) -> tuple[str, ...]:
    now = time.time()
    charged, last_use, expires = (card.get(name) for name in ("charged_bytes", "last_use", "expires"))
    loading = card.get("loading_seconds")
    is_used = bool(card.get("requests"))
    return (
        card["name"],
        card.get("task") or "",
        card["state"] if loading is None else f"loading {duration(loading)}",
        card.get("device") or "",
        megabytes(charged) if charged else "",
        str(card.get("requests", "")),
        "" if is_used or last_use is None else duration(now - last_use),
        "pinned" if card.get("pinned") else _unload_time(card, is_used, expires, now),
    )


def _unload_time(card: dict[str, Any], is_used: bool, expires: float | None, now: float) -> str:
    if card["state"] == "unloaded":
        return ""
    if expires is not None:
        return duration(expires - now)
    keep_alive = card.get("keep_alive")
    if not isinstance(keep_alive, int | float) or keep_alive < 0:
        return "never"
    return f"{duration(keep_alive)} after use" if is_used else duration(keep_alive)


def duration(seconds: float) -> str:
    """Format a duration in its two largest units, as in 1h 5m."""
    whole = max(0, round(seconds))
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count}{unit}" for count, unit in parts[first : first + 2]]
    return " ".join(part for index, part in enumerate(shown) if not index or not part.startswith("0"))
