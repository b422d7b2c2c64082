"""`antiphon info`: a model's architecture, sizes and compiled forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.aligned import aligned
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.arguments.model_options import check_device
from antiphon.cli.catalog.stored import Offline
from antiphon.cli.terminal.sizes import megabytes
from antiphon.device_names import CPU

if TYPE_CHECKING:
    from antiphon.ops import Device
    from antiphon.weights.catalog.resolve import ResolvedModel


class ProgramOptions(OptionGroup):
    """Options for printing the compiled forward, with the step and machine to describe."""

    program: Annotated[
        bool, typer.Option("--program", help="Also print the compiled forward: instructions, weights, buffers, costs.")
    ] = False
    device: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="With --program: cpu, or cuda[:N] for the launches of a decode step on that GPU, with their times.",
            callback=check_device,
        ),
    ] = CPU
    rows: Annotated[
        int, typer.Option(help="With --program: sequences in the step whose least time is printed.", min=1)
    ] = 1
    context: Annotated[int, typer.Option(help="With --program: tokens before that step, for each sequence.", min=0)] = (
        512
    )
    bandwidth: Annotated[
        float | None,
        typer.Option(
            metavar="GB/S",
            help="With --program: memory bandwidth to compare with. Default: measured here.",
            min=0.001,
        ),
    ] = None
    compute: Annotated[
        float | None,
        typer.Option(
            metavar="GMAC/S",
            help="With --program: multiplications with additions per second. Default: measured here.",
            min=0.001,
        ),
    ] = None

    def lines(self, model: ResolvedModel, device: Device) -> list[str]:
        """Return lines that describe a model's compiled forward."""
        from antiphon.ops.program.floor import UniformStep
        from antiphon.runtime.loading.describe import describe_programs
        from antiphon.runtime.loading.describe_step import describe_step
        from antiphon.runtime.loading.machine_limits import GivenLimits

        rates = [None if rate is None else rate * 1e9 for rate in (self.bandwidth, self.compute)]
        given = GivenLimits(bytes_per_second=rates[0], macs_per_second=rates[1])
        if device.is_cpu:
            return describe_programs(model, self.rows, self.context, given)
        return describe_step(model, device, UniformStep(self.rows, self.context), given)


def info(
    name: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Catalog name, file, folder, or hub:owner/repository[@revision][:file]."),
    ],
    *,
    compiled: ProgramOptions,
    offline: Offline = False,
) -> None:
    """Print a model's architecture, sizes, tensor types and context length. Downloads it if needed."""
    from antiphon.cli.terminal.download_progress import fetch_progress
    from antiphon.ops import Device
    from antiphon.runtime.loading.describe import describe, device_lines
    from antiphon.weights.catalog.resolve import resolve

    opened = Device.parse(compiled.device if compiled.program else CPU)
    with fetch_progress() as progress:
        model = resolve(name, offline=offline, progress=progress)
    facts = describe(model)
    rows = [
        ("name", facts.name),
        ("format", facts.format),
        ("path", facts.path),
        ("files", megabytes(facts.file_bytes)),
    ]
    if model.entry is not None:
        rows += [("task", model.entry.task), ("licence", model.entry.licence)]
    if facts.architecture is not None:
        rows += [("architecture", facts.architecture), ("parameters", f"{facts.parameters:,}")]
    for type_name, (count, size) in sorted(facts.bytes_by_type.items()):
        rows.append((f"  {type_name}", f"{count} tensors, {megabytes(size)}"))
    if facts.context is not None:
        rows += [("context", f"{facts.context:,} tokens"), ("vocabulary", f"{facts.vocabulary:,} tokens")]
    if facts.kv_bytes_per_token:
        sizes = ", ".join(f"{page} {size:,.0f}" for page, size in facts.kv_bytes_per_token.items())
        rows.append(("KV bytes per token", sizes))
    rows += [("cache group", group) for group in facts.cache_groups]
    rows += [("device", line) for line in device_lines()]
    if facts.obstacle is not None:
        rows.append(("not runnable", facts.obstacle))
    typer.echo("\n".join(aligned(rows, left={0, 1})))
    if compiled.program and facts.obstacle is None:
        typer.echo("\n".join(["", *compiled.lines(model, opened)]))
