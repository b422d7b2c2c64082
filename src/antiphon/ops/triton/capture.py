"""CUDA graphs of what a function launches."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def capture(run: Callable[[], Result], pool: Any) -> tuple[torch.cuda.CUDAGraph, Result]:
    """The launches of `run` on the current stream as a graph with memory of `pool`, and what `run` returns.

    Nothing is computed. The kernels must have run once, so that they are compiled. The garbage collector rests: where
    it frees pinned memory that the stream has copied, torch would record an event in the graph, and fail when it asks
    later whether the event has passed.
    """
    graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
    torch.cuda.current_stream().synchronize()
    gc.disable()
    try:
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            result = run()
        except BaseException:
            with suppress(RuntimeError):  # a capture that failed cannot be ended; why it failed is what counts
                graph.capture_end()
            raise
        graph.capture_end()
    finally:
        if collects:
            gc.enable()
    return graph, result
