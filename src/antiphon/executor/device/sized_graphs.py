"""`SizedGraphs`: passes as CUDA graphs, by the size of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from antiphon.ops.triton.capture import capture


class SizedGraphs:
    """Runs passes as CUDA graphs, one for each size of inputs.

    Launching a small pass kernel by kernel takes the host longer than the device computes; a graph is one launch.
    A size is captured when it occurs a second time: the first run compiles the kernels, and capturing a size that
    occurs only once would cost more than it saves.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._seen: set[Hashable] = set()
        self._captures = True

    @property
    def num_graphs(self) -> int:
        return len(self._graphs)

    @property
    def num_seen(self) -> int:
        """Number of sizes that have run."""
        return len(self._seen)

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Run the passes of a `with` block only to list their kernels: they are not captured or counted as seen."""
        self._captures = False
        try:
            yield
        finally:
            self._captures = True
            self._seen.clear()

    def run(self, size: Hashable, compute: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """Return compute(inputs), run on the current stream; the next pass of any size may overwrite the result.

        Inputs of one size must have one shape and type, and `compute` must do the same with these every time.
        """
        found = self._graphs.get(size)
        if found is None and size in self._seen and self._captures:
            given = torch.empty_like(inputs)
            graph, result = capture(lambda: compute(given), self._pool)
            found = self._graphs[size] = graph, given, result
        if found is None:
            self._seen.add(size)
            return compute(inputs)
        graph, given, result = found
        given.copy_(inputs)
        graph.replay()
        return result
