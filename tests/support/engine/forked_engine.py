"""Engine processes forked from one that has imported the engine already.

Starting an engine process takes seconds, nearly all of them imports. `ForkedClient` has its engine processes forked
from a template, as `support/programs/forks.py` describes. A fork lives and dies as any engine process does. The one
difference is its parent.

Tests of the start itself use `EngineClient`. Elsewhere than on Linux, `ForkedClient` is the same.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import cast

from antiphon.runtime.process.client import EngineClient
from antiphon.runtime.process.engine_process import EngineProcess
from support.programs.forks import ENGINE_MODULES, Template, template

WORKER = "import sys; from antiphon.runtime.process.worker import main; main(sys.argv[1:])"
#: Beginnings of the names of variables that change what an interpreter imports or how a library starts.
START_VARIABLES = ("PYTHON", "LD_", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "CUDA_", "TRITON_")


def start_variables() -> dict[str, str]:
    """The variables that a template must share with its forks."""
    return {name: value for name, value in os.environ.items() if name.startswith(START_VARIABLES)}


#: A test may have changed the present ones.
SHARED_VARIABLES = start_variables()


class ForkedEngineProcess(EngineProcess):
    #: Code that the fork runs before it becomes an engine process.
    before = ""

    def _start(self, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
        if sys.platform != "linux" or start_variables() != SHARED_VARIABLES:
            return super()._start(arguments, reading)
        return forked(template(*ENGINE_MODULES), f"{self.before}\n{WORKER}", arguments, reading)


class ForkedClient(EngineClient):
    """An engine client whose engine processes start at once."""

    process_class: type[EngineProcess] = ForkedEngineProcess


def forked(source: Template, code: str, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
    output, writing = os.pipe()
    fork = source.start(code, arguments, (reading, writing, writing))
    os.close(writing)
    fork.stdout = os.fdopen(output, "rb")
    return cast("subprocess.Popen[bytes]", fork)


def use_template(descriptor: int, before: str = "") -> None:
    """Fork this process's engine processes, which run `before` first, from the template that a socket leads to."""
    source = Template(socket.socket(fileno=descriptor))

    def start(_: EngineProcess, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
        return forked(source, f"{before}\n{WORKER}", arguments, reading)

    EngineProcess._start = start  # type: ignore[method-assign]
