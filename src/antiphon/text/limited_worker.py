"""The loop of a process that answers requests within limits of memory and time: see `limited_process`.

A timer of the kernel ends the process in the middle of an answer that takes too long, whatever it is doing; so does the
end of the process that started it, or a lack of memory.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable

#: Before a request: its size and its seconds. Before an answer: its size.
REQUEST = struct.Struct("<Qd")
ANSWER = struct.Struct("<Q")
#: Before the first request can come: the process is there.
READY = b"ready"
#: The exit status of a process that ran out of memory.
OUT_OF_MEMORY = 3


def serve(answer: Callable[[bytes], bytes], max_bytes: int) -> None:
    """Answer requests from the standard input on the standard output until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the process that started this one
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
    """Limit the address space, and allow no file to be written."""
    import resource

    for kind, limit in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
