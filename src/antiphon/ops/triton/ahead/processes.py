"""`CompilerProcess`: a process that compiles kernels into Triton's cache on disk.

Triton's compiler holds Python's lock for up to 0.2 seconds at a time: in a thread of this process it would stall steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import antiphon
from antiphon.ops.triton.ahead import worker
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.kernel_cache import cache_folder

#: Processes at most, whatever the number of cores; each takes some 200 MB while it compiles.
MAX_PROCESSES = 16
#: Of processes that compile while requests run.
NICENESS = 10


class ProcessEndedError(RuntimeError):
    """The process was killed, or could not begin."""


class CompilerProcess:
    """Started on creation; ends with `close`, or when this process ends."""

    def __init__(self, capability: int, is_nice: bool = False) -> None:
        folder = str(Path(antiphon.__file__).parents[1])
        arguments = [worker.__file__, folder, str(capability), str(NICENESS if is_nice else 0)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"TRITON_CACHE_DIR": str(cache_folder())},
            text=True,
            process_group=0,  # Ctrl-C on the terminal is for the parent alone
        )
        self._end = weakref.finalize(self, _end, self._process)

    def compile(self, variant: Variant) -> None:
        """Return when the kernel is in the cache on disk; `RuntimeError` if it cannot be compiled.

        `ProcessEndedError`: this process is of no use any more.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(variant.text() + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except (OSError, ValueError) as error:
            raise ProcessEndedError(f"the process that compiles kernels has ended: {error}") from error
        if not answer:
            raise ProcessEndedError(f"the process that compiles kernels ended with status {self._process.wait()}")
        error_text = json.loads(answer)
        if error_text is not None:
            raise RuntimeError(error_text)

    def kill(self) -> None:
        """End it now; a thread that waits in `compile` gets its error. May be called from any thread."""
        self._process.kill()

    def close(self) -> None:
        """End it, and free what it holds here."""
        self._end()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # of what it was not sent any more
                pipe.close()


def process_count(is_nice: bool) -> int:
    """Processes that compile side by side; half of the cores where requests run meanwhile."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores // 2 if is_nice else cores, MAX_PROCESSES))
