"""`antiphon pull`, `list`, `info` and `rm`: the models on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.aligned import aligned
from antiphon.cli.arguments.shared import check_device
from antiphon.device_names import CPU

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL", help="Catalog names or hub:owner/repository[@revision][:file].", show_default=False
    ),
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
        typer.echo(f"{model.name}  {_megabytes(size)}  {model.path}{'  verified' if verify else ''}")


def list_models() -> None:
    """List the models of the catalog and those downloaded from the hub."""
    from antiphon.weights.catalog.catalog import catalog
    from antiphon.weights.catalog.fetch import is_downloaded
    from antiphon.weights.catalog.store import ModelStore

    store = ModelStore.default()
    rows = [("NAME", "TASK", "SIZE", "LICENCE", "DOWNLOADED")]
    for entry in [*catalog().values(), *store.recorded_entries()]:
        downloaded = "yes" if is_downloaded(entry, store) else "no"
        rows.append((entry.name, entry.task, _megabytes(entry.size), entry.licence, downloaded))
    for line in aligned(rows, left={0, 1, 3, 4}):
        typer.echo(line)


def remove(names: Models) -> None:
    """Delete downloaded models. Files that other programs put in the Hugging Face cache stay there."""
    from antiphon.weights.catalog.catalog import find_entry
    from antiphon.weights.catalog.resolve import HUB_PREFIX
    from antiphon.weights.catalog.store import ModelStore

    store = ModelStore.default()
    for name in names:
        known = name if name.startswith(HUB_PREFIX) else find_entry(name).name
        removal = store.remove(known)
        typer.echo(f"{known}  {_megabytes(removal.freed)} freed")
        for repository in sorted({repository for repository, _ in removal.kept}):
            size = sum(path.stat().st_size for owner, path in removal.kept if owner == repository)
            typer.echo(
                f"{known}  {_megabytes(size)} of {repository} kept in the Hugging Face cache, where Antiphon found it; "
                f"delete it with `hf cache rm model/{repository}`"
            )


def info(
    name: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Catalog name, file, folder, or hub:owner/repository[@revision][:file]."),
    ],
    program: Annotated[
        bool, typer.Option("--program", help="Also print the compiled forward: instructions, weights, buffers, costs.")
    ] = False,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="With --program: cpu, or cuda[:N] for the launches of a decode step on that GPU, with their times.",
            callback=check_device,
        ),
    ] = "cpu",
    step_rows: Annotated[
        int, typer.Option("--rows", help="With --program: sequences in the step whose least time is printed.", min=1)
    ] = 1,
    context: Annotated[
        int, typer.Option("--context", help="With --program: tokens before that step, for each sequence.", min=0)
    ] = 512,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            "--bandwidth",
            metavar="GB/S",
            help="With --program: memory bandwidth to compare with. Default: measured here.",
            min=0.001,
            show_default=False,
        ),
    ] = None,
    compute: Annotated[
        float | None,
        typer.Option(
            "--compute",
            metavar="GMAC/S",
            help="With --program: multiplications with additions per second. Default: measured here.",
            min=0.001,
            show_default=False,
        ),
    ] = None,
    offline: Offline = False,
) -> None:
    """Print a model's architecture, sizes, tensor types and context length. Downloads it if needed."""
    from antiphon.cli.terminal.download_progress import fetch_progress
    from antiphon.ops import Device
    from antiphon.runtime.loading.describe import describe, device_lines
    from antiphon.weights.catalog.resolve import resolve

    opened = Device.parse(device if program else CPU)
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
    rows += [("device", line) for line in device_lines()]
    if facts.obstacle is not None:
        rows.append(("not runnable", facts.obstacle))
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        typer.echo(f"{label.ljust(width)}  {value}")
    if program and facts.obstacle is None:
        from antiphon.ops.program.floor import UniformStep
        from antiphon.runtime.loading.describe import describe_programs
        from antiphon.runtime.loading.describe_step import describe_step
        from antiphon.runtime.loading.machine_limits import GivenLimits

        rates = [None if rate is None else rate * 1e9 for rate in (bandwidth, compute)]
        given = GivenLimits(bytes_per_second=rates[0], macs_per_second=rates[1])
        if opened.is_cpu:
            lines = describe_programs(model, step_rows, context, given)
        else:
            lines = describe_step(model, opened, UniformStep(step_rows, context), given)
        typer.echo("\n".join(["", *lines]))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
