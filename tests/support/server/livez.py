"""`python livez.py URL`: poll `/livez` until standard input ends, then print each poll's seconds."""

from __future__ import annotations

import http.client
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

POLL_SECONDS = 0.02


def poll(url: str) -> list[float]:
    """Return the seconds of each poll, on a new connection each; infinity for a poll not answered with 200."""
    address = urlsplit(url)
    seconds = []
    while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        began = time.monotonic()
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        try:
            connection.request("GET", "/livez")
            is_alive = connection.getresponse().status == 200
        except OSError:
            is_alive = False
        connection.close()
        seconds.append(time.monotonic() - began if is_alive else float("inf"))
        if len(seconds) == 1:
            print("polling", flush=True)
    return seconds


@contextmanager
def polled(url: str) -> Iterator[list[float]]:
    """Poll from another process while the block runs, which starts after the first poll; fill the list afterwards."""
    seconds: list[float] = []
    process = subprocess.Popen([sys.executable, __file__, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield seconds
        seconds += json.loads(process.communicate(timeout=120)[0])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


if __name__ == "__main__":
    print(json.dumps(poll(sys.argv[1])))
