"""`antiphon pull`, `list` and `rm`: the models on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.aligned import aligned
from antiphon.cli.terminal.sizes import megabytes

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="Catalog names or hub:owner/repository[@revision][:file]."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Download nothing; fail if files are missing or damaged.")]


def pull(
    names: Models,
    offline: Offline = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Also compare every byte of files already here with their sha256."),
    ] = False,
) -> None:
    """Download models, so that they can be used offline. Damaged files are downloaded again."""
    from antiphon.cli.terminal.download_progress import fetch_progress
    from antiphon.weights.catalog.resolve import resolve

    for name in names:
        with fetch_progress() as progress:
            model = resolve(name, offline=offline, progress=progress, repair=True, every_byte=verify)
        size = sum(path.stat().st_size for path in model.files.values())
        typer.echo(f"{model.name}  {megabytes(size)}  {model.path}{'  verified' if verify else ''}")


def list_models() -> None:
    """List the models of the catalog and those downloaded from the hub."""
    from antiphon.weights.catalog.catalog import catalog
    from antiphon.weights.catalog.fetch import is_downloaded
    from antiphon.weights.catalog.store import ModelStore

    store = ModelStore.default()
    rows = [("NAME", "TASK", "SIZE", "LICENCE", "DOWNLOADED")]
    for entry in [*catalog().values(), *store.recorded_entries()]:
        downloaded = "yes" if is_downloaded(entry, store) else "no"
        rows.append((entry.name, entry.task, megabytes(entry.size), entry.licence, downloaded))
    for line in aligned(rows, left={0, 1, 3, 4}):
        typer.echo(line)


def remove(names: Models) -> None:
    """Delete downloaded models. Files that other programs put in the Hugging Face cache stay there."""
    from antiphon.weights.catalog.catalog import find_entry
    from antiphon.weights.catalog.references import HUB_PREFIX
    from antiphon.weights.catalog.store import ModelStore

    store = ModelStore.default()
    for name in names:
        known = name if name.startswith(HUB_PREFIX) else find_entry(name).name
        removal = store.remove(known)
        typer.echo(f"{known}  {megabytes(removal.freed)} freed")
        for repository in sorted({repository for repository, _ in removal.kept}):
            size = sum(path.stat().st_size for owner, path in removal.kept if owner == repository)
            typer.echo(
                f"{known}  {megabytes(size)} of {repository} kept in the Hugging Face cache, where Antiphon found it; "
                f"delete it with `hf cache rm model/{repository}`"
            )
