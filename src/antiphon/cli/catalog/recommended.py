"""The table of `antiphon list --recommended`: models for each task that fit this machine."""

from __future__ import annotations

import sys

import typer

from antiphon import environment
from antiphon.aligned import aligned
from antiphon.cli.terminal.sizes import size_text
from antiphon.device_names import AUTO, CPU, has_gpu_driver
from antiphon.runtime.analysis.recommended import TASKS, candidates, needed_bytes
from antiphon.runtime.loading.memory_budget import SHARE, machine_bytes
from antiphon.weights.catalog.catalog import ModelEntry
from antiphon.weights.catalog.fetch import is_downloaded
from antiphon.weights.catalog.hub import default_hub
from antiphon.weights.catalog.store import ModelStore

#: Seconds that the hub has to answer.
HUB_SECONDS = 3.0
HEADINGS = ("NAME", "FOR", "MEMORY", "DOWNLOAD", "LICENCE", "TRIED")


def print_recommended(device: str, offline: bool) -> None:
    """Print the models that fit the device's memory, the best of each task first, and what they need."""
    memory, where = _memory(device)
    obstacle = "downloads are off" if offline or environment.offline() else default_hub().obstacle(HUB_SECONDS)
    store = ModelStore.default()
    here = {entry.name for entry in store.entries() if is_downloaded(entry, store)}
    shown, too_large = [], []
    for task in TASKS:
        found = candidates(task, obstacle is None, here)
        fitting = [entry for entry in found if needed_bytes(entry) <= memory]
        shown += fitting
        too_large += [entry for entry in found if entry not in fitting]
    _note(f"Models for {where}, the best of each task first:")
    rows = [HEADINGS, *(_row(entry, entry.name in here) for entry in shown)]
    typer.echo("\n".join(aligned(rows, left={0, 1, 4, 5})))
    if obstacle is not None:
        _note(f"{obstacle[0].upper()}{obstacle[1:]}: only models that are here or in package mirrors are listed.")
    if too_large:
        least = min(too_large, key=needed_bytes)
        _note(f"{len(too_large)} more need more memory, {least.name} the least: {size_text(needed_bytes(least))}.")
    if not all(entry.is_tried for entry in shown):
        _note("TRIED no: files of this architecture and format run; this very file was not tried with Antiphon.")


def _row(entry: ModelEntry, is_here: bool) -> tuple[str, ...]:
    download = "here" if is_here else size_text(entry.size)
    tried = "yes" if entry.is_tried else "no"
    return entry.name, entry.use, size_text(needed_bytes(entry)), download, entry.licence, tried


def _memory(device: str) -> tuple[int, str]:
    """Return the bytes that models may take on a device, and a description of them."""
    if device != CPU and (device != AUTO or has_gpu_driver()):
        from antiphon.ops import Device

        opened = Device.parse(device)
        if not opened.is_cpu:
            free = opened.free_bytes()
            return free, f"the {size_text(free)} that are free on {opened.name} ({opened.limits.hardware})"
    total = machine_bytes()
    return int(total * SHARE), f"{size_text(total * SHARE)} of this machine's {size_text(total)}"


def _note(text: str) -> None:
    print(text, file=sys.stderr)
