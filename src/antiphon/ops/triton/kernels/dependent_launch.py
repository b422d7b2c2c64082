"""Programmatic dependent launch (sm_90 and later): a kernel starts while the previous kernel still runs.

A kernel lets its successor start with `release`, loads what no earlier kernel writes (weights, tables), and calls
`wait` before it reads results of earlier kernels. Without PDL both functions do nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def release(PDL: tl.constexpr):
    """Let the next kernel of the stream start."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def wait(PDL: tl.constexpr):
    """Wait until the kernels before this one have ended and their results are visible."""
    if PDL:
        tl.extra.cuda.gdc_wait()
