"""Engine processes forked from a template process that has already imported the engine.

Starting an engine process takes seconds, nearly all of them imports. `ForkedClient` forks its engine processes from a
template (see `support/programs/forks.py`). A fork behaves as any engine process does, except that its parent is the
template.
Tests of the start itself use `EngineClient`. On systems other than Linux, `ForkedClient` starts processes in the same
way.
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
#: Prefixes of environment variables that change what an interpreter imports or how a library starts.
START_VARIABLES = ("PYTHON", "LD_", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "CUDA_", "TRITON_")


def start_variables() -> dict[str, str]:
    """Return the environment variables that must be equal in a template and its forks."""
    return {name: value for name, value in os.environ.items() if name.startswith(START_VARIABLES)}


#: Values at import, since a test may change the environment later.
SHARED_VARIABLES = start_variables()


class ForkedEngineProcess(EngineProcess):
    #: Code that the fork runs before it becomes an engine process.
    before = ""

    def _start(self, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
        if sys.platform != "linux" or start_variables() != SHARED_VARIABLES:
            return super()._start(arguments, reading)
        return forked(template(*ENGINE_MODULES), f"{self.before}\n{WORKER}", arguments, reading)


class ForkedClient(EngineClient):
    """Engine client whose engine processes are forked, and so start at once."""

    process_class: type[EngineProcess] = ForkedEngineProcess


def forked(source: Template, code: str, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
    output, writing = os.pipe()
    fork = source.start(code, arguments, (reading, writing, writing))
    os.close(writing)
    fork.stdout = os.fdopen(output, "rb")
    return cast("subprocess.Popen[bytes]", fork)


def use_template(descriptor: int, before: str = "") -> None:
    """Fork engine processes from the template at a socket's descriptor; each fork runs `before` first."""
    source = Template(socket.socket(fileno=descriptor))

    def start(_: EngineProcess, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
        return forked(source, f"{before}\n{WORKER}", arguments, reading)

    EngineProcess._start = start  # type: ignore[method-assign]
