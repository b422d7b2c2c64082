"""`AheadCompiler`: compiles variants of kernels for a GPU in several processes, and reads them into this process."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Protocol

import torch

from antiphon.ops.triton.ahead.kernel_modules import hash_kernels
from antiphon.ops.triton.ahead.processes import CompilerProcess, ProcessEndedError, process_count
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.kernel_cache import CompiledMarks
from antiphon.ops.triton.launch import card

logger = logging.getLogger(__name__)


class Process(Protocol):
    """Process that compiles into the cache on disk, one kernel at a time."""

    def compile(self, variant: Variant) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Compilation:
    """Digests of all variants, and the `missing` variants that processes compile; each arrives in `done` once."""

    digests: Mapping[Variant, str]
    missing: Sequence[Variant]
    #: Whether requests run meanwhile.
    in_background: bool
    done: SimpleQueue[tuple[Variant, Exception | None]] = field(default_factory=SimpleQueue)
    #: Variants that were read, or that could not be compiled.
    taken: set[Variant] = field(default_factory=set)


def read_kernel(variant: Variant, loads: bool) -> None:
    """Read a kernel into Triton's memory for the current device; if `loads`, also onto the device.

    A kernel that the cache on disk does not have is compiled in this process.
    """
    kernel: Any = variant.compile()
    if loads and kernel is not None:
        _ = kernel.run  # makes the launcher and loads the binary


class AheadCompiler:
    """Compiler of one model's kernels. A failure is only a warning: the kernel's first launch reports the error."""

    def __init__(
        self,
        device: torch.device,
        *,
        start: Callable[[int, bool], Process] = CompilerProcess,
        read: Callable[[Variant, bool], None] = read_kernel,
        marks: CompiledMarks | None = None,
    ) -> None:
        hash_kernels()
        self._device, self._capability = device, card(device).capability
        self._start, self._read = start, read
        self._marks = marks or CompiledMarks()
        self._cancelled = Event()
        self._lock = Lock()
        self._processes: set[Process] = set()
        self._background: Thread | None = None

    def begin(self, variants: Iterable[Variant], in_background: bool = False) -> Compilation:
        """Start to compile the variants that the cache on disk does not have; `finish` completes the work."""
        digests = {variant: self._digest(variant) for variant in dict.fromkeys(variants)}
        missing = [variant for variant, digest in digests.items() if digest not in self._marks]
        begun = Compilation(digests, missing, in_background)
        queue = deque(missing)
        for number in range(min(process_count(in_background), len(missing))):
            name = f"antiphon-compile-{number}"
            Thread(target=self._work, args=(queue, begun), name=name, daemon=True).start()
        return begun

    def finish(self, begun: Compilation, variants: Iterable[Variant] | None = None) -> None:
        """Return when all variants, or these, are compiled and read into this process.

        In the foreground they are also loaded onto the device.
        """
        wanted = set(begun.digests if variants is None else variants) - begun.taken
        missing = wanted.intersection(begun.missing)
        with self._current_device():
            for variant in begun.digests:
                if variant in wanted and variant not in missing:
                    self._take(variant, None, begun)
            while not missing <= begun.taken:
                variant, error = begun.done.get()
                if error is None:
                    self._marks.add(begun.digests[variant])
                self._take(variant, error, begun)

    def compile_in_background(self, *groups: tuple[Sequence[Variant], Callable[[], None] | None]) -> None:
        """Compile group after group while requests run, in a daemon thread.

        The function in a group is called once the group's kernels are read. The processes start now, before requests
        run.
        """
        if self._cancelled.is_set():
            return
        begun = self.begin((variant for variants, _ in groups for variant in variants), in_background=True)

        def run() -> None:
            for variants, then in groups:
                self.finish(begun, variants)
                if then is not None and not self._cancelled.is_set():
                    then()

        self._background = Thread(target=run, name="antiphon-kernels", daemon=True)
        self._background.start()

    def wait(self) -> None:
        """Return when no compilation runs in the background."""
        if self._background is not None:
            self._background.join()

    def cancel(self) -> None:
        """Stop compiling; kernels that are being compiled are abandoned."""
        self._cancelled.set()
        with self._lock:
            for process in self._processes:
                process.kill()

    # -- in the calling thread ----------------------------------------------------------------------------------

    def _digest(self, variant: Variant) -> str:
        import triton

        return variant.digest(triton.__version__, str(self._capability))

    def _current_device(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()

    def _take(self, variant: Variant, error: Exception | None, begun: Compilation) -> None:
        """Read a compiled kernel; if its process ended and nothing runs yet, compile the kernel here.

        Any other error is logged as a warning.
        """
        begun.taken.add(variant)
        if self._cancelled.is_set():
            return
        try:
            if error is not None and (begun.in_background or not isinstance(error, ProcessEndedError | OSError)):
                raise error
            self._read(variant, not begun.in_background)
        except Exception as failure:
            reason = str(failure).strip().partition("\n")[0]
            logger.warning("the kernel %s could not be compiled ahead: %s", variant.name, reason)

    # -- in threads of their own --------------------------------------------------------------------------------

    def _work(self, queue: deque[Variant], begun: Compilation) -> None:
        """Compile in this thread's process until the queue is empty; every variant is put in `done`."""
        process: Process | None = None
        while True:
            try:
                variant = queue.popleft()
            except IndexError:
                break
            try:
                process = process or self._start_process(begun.in_background)
                process.compile(variant)
                begun.done.put((variant, None))
            except Exception as error:
                if process is not None and isinstance(error, ProcessEndedError):
                    self._end(process)
                    process = None
                begun.done.put((variant, error))
        if process is not None:
            self._end(process)

    def _start_process(self, is_nice: bool) -> Process:
        with self._lock:
            if self._cancelled.is_set():
                raise ProcessEndedError("cancelled")
            process = self._start(self._capability, is_nice)
            self._processes.add(process)
            return process

    def _end(self, process: Process) -> None:
        with self._lock:
            self._processes.discard(process)
        process.close()
