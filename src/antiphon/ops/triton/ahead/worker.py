"""Process that compiles kernels for a GPU without opening it: `python worker.py FOLDER CAPABILITY NICENESS`.

FOLDER contains the package `antiphon`. Each line of standard input is a variant; the answer is a line with the error as
JSON, or null when the kernel is in Triton's cache on disk. The process ends with its input. It imports no torch, which
would take longer than a kernel and most of the memory.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

#: Packages whose `__init__` imports torch; the kernels below them do not.
BARE = ("antiphon.ops", "antiphon.ops.triton")


class TargetDriver:
    """Driver that answers what Triton asks about a device to compile a kernel."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._capability, 32)


def import_bare(folder: Path) -> None:
    """Register the packages `BARE` without running their `__init__`."""
    sys.path.insert(0, str(folder))
    for name in BARE:
        package = ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = package


def make_launcher(kernel: Any) -> None:
    """Compile the kernel's launcher; some versions of Triton have a C function for each signature, in the cache."""
    with suppress(Exception):  # without the GPU's driver, the launcher is compiled at the first launch
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(kernel.src, kernel.metadata)


def serve(lines: TextIO, answers: TextIO) -> None:
    """Compile the variant of each line until the input ends."""
    from antiphon.ops.triton.ahead.kernel_modules import hash_kernels
    from antiphon.ops.triton.ahead.variant import Variant

    hash_kernels()
    for line in lines:
        try:
            make_launcher(Variant.parse(line).compile())
            error = None
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        answers.write(json.dumps(error) + "\n")
        answers.flush()


def main(folder: str, capability: str, niceness: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the compiler's output must not mix with the answers
    os.nice(int(niceness))
    import_bare(Path(folder))
    from triton.runtime.driver import driver

    driver.set_active(TargetDriver(int(capability)))
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
