"""`CompilerProcess`: a process that compiles kernels into Triton's cache on disk.

Triton's compiler holds the GIL for up to 0.2 seconds at a time: in a thread of this process it would stall steps.
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

#: Maximum number of processes on any number of cores; each takes some 200 MB while it compiles.
MAX_PROCESSES = 16
#: Niceness of processes that compile while requests run.
NICENESS = 10


class ProcessEndedError(RuntimeError):
    """Error of a process that was killed, or could not start."""


class CompilerProcess:
    """Process that starts on creation, and ends with `close` or with this process."""

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
            process_group=0,  # Ctrl-C on the terminal must only reach the parent
        )
        self._end = weakref.finalize(self, _end, self._process)

    def compile(self, variant: Variant) -> None:
        """Return when the kernel is in the cache on disk; raise `RuntimeError` if it cannot be compiled.

        After a `ProcessEndedError` this process cannot be used any more.
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
        """Kill the process; a thread that waits in `compile` receives the error. May be called from any thread."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, wait for its end and close its pipes."""
        self._end()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # unsent input of a process that has ended
                pipe.close()


def process_count(is_nice: bool) -> int:
    """Return the number of processes that compile in parallel; half of the cores if requests run meanwhile."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores // 2 if is_nice else cores, MAX_PROCESSES))
