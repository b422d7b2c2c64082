"""Models recommended for a task, by the memory of a machine. Needs no tensor library."""

from __future__ import annotations

from collections.abc import Collection

from antiphon.runtime.loading.memory_budget import DEFAULT_KV_BYTES, default_budget
from antiphon.weights.catalog.catalog import ModelEntry, Task, catalog

#: Tasks that models are recommended for, in the order of a listing.
TASKS: tuple[Task, ...] = ("chat", "transcription", "speech", "embedding")
#: Tasks whose models keep keys and values.
DECODING = ("chat", "completion", "transcription")
#: Memory of a process beside its model, by task: Python, PyTorch and buffers. Measured, as the factors below.
PROCESS_BYTES: dict[Task, int] = {"speech": 450_000_000}
USUAL_PROCESS_BYTES = 300_000_000
#: Peak memory of a model per byte of its files, by task. It exceeds 1, because weights are packed while the file is
#: still mapped, and because speech models have large activations.
FILE_FACTORS: dict[Task, float] = {"speech": 2.7}
USUAL_FILE_FACTOR = 1.5


def needed_bytes(entry: ModelEntry) -> int:
    """Return the memory that a command with the model needs at most, with the default size of the KV cache."""
    weights = int(entry.size * FILE_FACTORS.get(entry.task, USUAL_FILE_FACTOR))
    cache = DEFAULT_KV_BYTES if entry.task in DECODING else 0
    return weights + cache + PROCESS_BYTES.get(entry.task, USUAL_PROCESS_BYTES)


def candidates(task: Task, hub_reachable: bool | None, here: Collection[str] = ()) -> list[ModelEntry]:
    """Return the models that could be recommended for a task, the best first, whatever memory they need.

    Models of the hub are better than models of package mirrors, and are left out only if the hub is known to be
    unreachable and the model is not `here`. A larger model of the mirrors comes before a smaller one.
    """
    entries = [entry for entry in catalog().values() if entry.task == task]
    of_hub = [entry for entry in entries if entry.needs_hub and (hub_reachable is not False or entry.name in here)]
    mirrored = sorted((entry for entry in entries if not entry.needs_hub), key=lambda entry: -entry.size)
    return of_hub + mirrored


def recommended(
    task: Task, memory_bytes: int | None = None, hub_reachable: bool | None = None, here: Collection[str] = ()
) -> ModelEntry | None:
    """Return the best model for a task that fits the memory, or None if none fits.

    `memory_bytes` is by default what this process may use. With `hub_reachable` None it is unknown whether the hub can
    be reached, and the model may need it (`ModelEntry.needs_hub`). `here` names the models that are already downloaded.
    """
    memory = default_budget() if memory_bytes is None else memory_bytes
    fitting = (entry for entry in candidates(task, hub_reachable, here) if needed_bytes(entry) <= memory)
    return next(fitting, None)
