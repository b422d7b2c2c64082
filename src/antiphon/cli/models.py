"""`antiphon pull`, `list`, `info` and `rm`: the models on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="Catalog names or hub:owner/repository[:file].", show_default=False),
]


def pull(
    names: Models,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing; fail if a model is not here.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read models that are here again and check them.")] = False,
) -> None:
    """Fetch models, so that they can be used without a network."""
    from antiphon.cli.progress import fetch_progress
    from antiphon.weights.resolve import resolve
    from antiphon.weights.store import ModelStore

    for name in names:
        with fetch_progress() as progress:
            model = resolve(name, offline=offline, progress=progress)
        if verify and model.entry is not None:
            ModelStore.default().verify(model.entry)
        size = sum(path.stat().st_size for path in model.files.values())
        typer.echo(f"{model.name}  {_megabytes(size)}  {model.path}")


def list_models() -> None:
    """List the known models, and which of them are on this machine."""
    from antiphon.weights.catalog import catalog
    from antiphon.weights.store import ModelStore

    store = ModelStore.default()
    rows = [("NAME", "TASK", "SIZE", "LICENCE", "HERE")]
    for entry in [*catalog().values(), *store.recorded_entries()]:
        here = "yes" if store.is_present(entry) else "no"
        rows.append((entry.name, entry.task, _megabytes(entry.size), entry.licence, here))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, task, size, licence, here in rows:
        cells = (name.ljust(widths[0]), task.ljust(widths[1]), size.rjust(widths[2]), licence.ljust(widths[3]), here)
        typer.echo("  ".join(cells).rstrip())


def remove(names: Models) -> None:
    """Remove models from this machine."""
    from antiphon.weights.catalog import find_entry
    from antiphon.weights.resolve import HUB_PREFIX
    from antiphon.weights.store import ModelStore

    store = ModelStore.default()
    for name in names:
        known = name if name.startswith(HUB_PREFIX) else find_entry(name).name
        freed = store.remove(known)
        typer.echo(f"{known}  {_megabytes(freed)} freed")


def info(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Catalog name, file, folder, or hub reference.")],
    program: Annotated[
        bool, typer.Option("--program", help="The forward as it is recorded: instructions, weights, buffers, costs.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing; fail if the model is not here.")] = False,
) -> None:
    """Print a model's architecture, sizes, tensor types and context."""
    from antiphon.cli.progress import fetch_progress
    from antiphon.runtime.describe import describe
    from antiphon.weights.resolve import resolve

    with fetch_progress() as progress:
        model = resolve(name, offline=offline, progress=progress)
    facts = describe(model)
    rows = [
        ("name", facts.name),
        ("format", facts.format),
        ("path", facts.path),
        ("files", _megabytes(facts.file_bytes)),
    ]
    if model.entry is not None:
        rows += [("task", model.entry.task), ("licence", model.entry.licence)]
    if facts.architecture is not None:
        rows += [("architecture", facts.architecture), ("parameters", f"{facts.parameters:,}")]
    for type_name, (count, size) in sorted(facts.bytes_by_type.items()):
        rows.append((f"  {type_name}", f"{count} tensors, {_megabytes(size)}"))
    if facts.context is not None:
        rows += [("context", f"{facts.context:,} tokens"), ("vocabulary", f"{facts.vocabulary:,} tokens")]
    if facts.kv_bytes_per_token:
        sizes = ", ".join(f"{page} {size:,.0f}" for page, size in facts.kv_bytes_per_token.items())
        rows.append(("KV bytes per token", sizes))
    rows += [("cache group", group) for group in facts.cache_groups]
    if facts.obstacle is not None:
        rows.append(("not runnable", facts.obstacle))
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        typer.echo(f"{label.ljust(width)}  {value}")
    if program and facts.obstacle is None:
        from antiphon.runtime.describe import describe_programs

        typer.echo("\n".join(["", *describe_programs(model)]))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
