"""The process that renders chat templates from strangers: `python -m antiphon.text.template_worker`.

It reads requests from its standard input and writes texts to its standard output until the input ends. Its memory is
limited, and a timer of the kernel ends it in the middle of a rendering that takes too long, whatever it is doing.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from typing import Any, BinaryIO

from antiphon.errors import TemplateError
from antiphon.text.template_sandbox import CompiledTemplate

#: Address space, of which Python and Jinja take some 100 MB.
MAX_BYTES = 1 << 30
MAX_TEMPLATES = 16
RENDERED, REJECTED, OUT_OF_MEMORY = b"r", b"e", b"m"
SIZE = struct.Struct("<Q")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until they end, or until one ran out of memory."""
    compiled: dict[str, CompiledTemplate] = {}
    while len(header := requests.read(SIZE.size)) == SIZE.size:
        source, variables, guard, seconds = pickle.loads(requests.read(SIZE.unpack(header)[0]))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        status, text = _render(compiled, source, variables, guard)
        signal.setitimer(signal.ITIMER_REAL, 0)
        data = text.encode("utf-8", "surrogatepass")
        answers.write(status + SIZE.pack(len(data)) + data)
        answers.flush()
        if status == OUT_OF_MEMORY:
            return


def _render(
    compiled: dict[str, CompiledTemplate], source: str, variables: dict[str, Any], guard: str
) -> tuple[bytes, str]:
    try:
        if source not in compiled:
            while len(compiled) >= MAX_TEMPLATES:
                del compiled[next(iter(compiled))]
            compiled[source] = CompiledTemplate(source)
        return RENDERED, compiled[source].render(variables, guard)
    except TemplateError as error:
        if isinstance(error.__cause__, MemoryError):
            return OUT_OF_MEMORY, ""
        return REJECTED, str(error)
    except MemoryError:
        return OUT_OF_MEMORY, ""


def limit_resources() -> None:
    """Limit memory, and allow neither files to be written nor processes to be started."""
    import resource

    for kind, limit in ((resource.RLIMIT_AS, MAX_BYTES), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not mix with the answers
    limit_resources()
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
