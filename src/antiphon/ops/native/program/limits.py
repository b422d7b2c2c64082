"""Peak rates of this machine's processor, which profiles are compared with."""

from __future__ import annotations

from antiphon.ops.native.extension import extension
from antiphon.ops.program.profile import MachineLimits
from antiphon.ops.threads import default_threads

#: Maximum bytes of the buffer for the read rate. It has the weights' size, so that caches help both equally.
MOST_READ_BYTES = 1 << 30
READ_REPEATS = 5
MULTIPLY_SECONDS = 0.05


def measure_limits(weight_bytes: int, threads: int | None = None) -> MachineLimits:
    """Measure the rates of all threads together, in a short run, for a program with `weight_bytes` bytes of weights."""
    threads = threads or default_threads()
    size = min(max(weight_bytes, 1 << 20), MOST_READ_BYTES)
    return MachineLimits(
        extension().read_rate(size, READ_REPEATS, threads, 0),
        extension().multiply_rate(MULTIPLY_SECONDS, threads, 0),
        extension().int8_multiply_rate(MULTIPLY_SECONDS, threads),
    )
