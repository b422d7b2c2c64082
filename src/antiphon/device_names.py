"""Names of devices: `auto`, `cpu`, `cuda` or `cuda:N`. Needs no tensor library."""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import InvalidRequestError

AUTO = "auto"
CPU = "cpu"
#: Kinds of devices. Only those in `NUMBERED` take a number.
KINDS = {AUTO, CPU, "cuda"}
NUMBERED = {"cuda"}


def check_device_name(name: str) -> str:
    """Return the name if its form is valid; the device itself need not exist."""
    kind, colon, number = name.partition(":")
    if kind not in KINDS or (colon and (kind not in NUMBERED or not number.isdecimal() or len(number) > 3)):
        raise InvalidRequestError(f"device is {name[:40]!r}; it must be auto, cpu, cuda or cuda:N, as in cuda:0")
    return name


def has_gpu_driver(root: Path = Path("/")) -> bool:
    """Return whether the machine has an NVIDIA driver, without opening a device: `auto` may then be a GPU."""
    return (root / "dev/nvidiactl").exists()
