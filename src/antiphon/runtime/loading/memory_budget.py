"""Memory that this process may use, and the memory that a model's weights will need."""

from __future__ import annotations

import os
from pathlib import Path

from antiphon.errors import MemoryBudgetError
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.resolve import ResolvedModel

#: Default bytes for keys and values on the CPU.
DEFAULT_KV_BYTES = 1 << 30
#: Share of the machine's or the container's memory for weights, keys and values.
SHARE = 0.8
#: Suffixes of files with weights; a llama2.c vocabulary has the suffix of its model, so it is excluded by name.
WEIGHT_SUFFIXES = (".gguf", ".safetensors", ".bin", ".pt", ".onnx")
NO_WEIGHTS = ("tokenizer.bin",)
CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_bytes(root: Path = Path("/")) -> int:
    """Return the bytes that this process may use: those of the machine, or of its container if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *cgroup_limits(root)])


def cgroup_limits(root: Path = Path("/")) -> list[int]:
    """Return the limits of the control groups of both versions; "max" and unreadable files are no limits."""
    limits = []
    for name in CGROUP_FILES:
        try:
            text = (root / name.lstrip("/")).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal() and int(text) > 0:
            limits.append(int(text))
    return limits


def check_memory(kv_bytes: int) -> None:
    """Reject a KV cache larger than the memory."""
    total = machine_bytes()
    if kv_bytes > total:
        raise MemoryBudgetError(
            f"{kv_bytes >> 20:,} MiB were requested for keys and values; there are only {total >> 20:,} MiB of memory"
        )


def default_budget() -> int:
    return int(machine_bytes() * SHARE)


def listed_weight_bytes(reference: str) -> int | None:
    """Return the weight bytes of a catalog model, or of one of its files, before download; None for other models."""
    name, _, only = reference.partition(":")
    entry = catalog().get(name.lower())
    if entry is None:
        return None
    return sum(file.size for file in entry.files if _holds_weights(file.name) and only in ("", file.name))


def weight_file_bytes(resolved: ResolvedModel) -> int:
    """Return the bytes of the files with weights, at least what the weights will take."""
    return sum(path.stat().st_size for name, path in resolved.files.items() if _holds_weights(name))


def _holds_weights(name: str) -> bool:
    return name.endswith(WEIGHT_SUFFIXES) and name not in NO_WEIGHTS
