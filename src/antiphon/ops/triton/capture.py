"""Capture of a function's kernel launches as a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def capture(run: Callable[[], Result], pool: Any) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Capture the launches of `run` on the current stream in a graph with memory of `pool`; return graph and result.

    Nothing is computed. The kernels must have run before, so that they are compiled. The garbage collector is off
    meanwhile: if it freed pinned memory that the stream has copied, torch would record an event in the graph and fail
    when it queries that event later.
    """
    graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
    torch.cuda.current_stream().synchronize()
    gc.disable()
    try:
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            result = run()
        except BaseException:
            with suppress(RuntimeError):  # a failed capture cannot be ended; raise the original error
                graph.capture_end()
            raise
        graph.capture_end()
    finally:
        if collects:
            gc.enable()
    return graph, result
