"""The loop of a process that answers requests within limits of memory and time: see `limited_process`.

A kernel timer ends the process in the middle of an answer that takes too long. The process also ends when its parent
does, or when memory runs out.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable

#: Headers: size and seconds of a request; size of an answer.
REQUEST = struct.Struct("<Qd")
ANSWER = struct.Struct("<Q")
#: Sent once the process can take requests.
READY = b"ready"
#: Exit status of a process that ran out of memory.
OUT_OF_MEMORY = 3


def serve(answer: Callable[[bytes], bytes], max_bytes: int) -> None:
    """Answer requests from the standard input on the standard output until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the parent process
    _limit_resources(max_bytes)
    answers.write(READY)
    answers.flush()
    requests = sys.stdin.buffer
    while len(header := requests.read(REQUEST.size)) == REQUEST.size:
        size, seconds = REQUEST.unpack(header)
        request = requests.read(size)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            data = answer(request)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(ANSWER.pack(len(data)) + data)
        answers.flush()


def _limit_resources(max_bytes: int) -> None:
    """Limit the address space, and forbid writing files."""
    import resource

    for kind, limit in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
