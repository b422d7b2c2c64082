"""`ForwardGraphs`: steps with prompts as CUDA graphs, by the number of tokens and requests that they have room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.batch import PackedStep, StepSize, pack, step_size
from antiphon.executor.device.sized_graphs import SizedGraphs
from antiphon.executor.upload import upload

#: Tokens of the graphs; a step is padded to the next size. The last has room for prompts beside decodes.
TOKEN_SIZES = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 8448)
#: Sizes below those, for steps of one token for each request where they have no graphs of their own.
FEW_TOKEN_SIZES = (1, 4, 16, 32)
#: Requests of the graphs, and rows of logits.
REQUEST_SIZES = (16, 64, 256)


def largest_size(max_tokens: int) -> int:
    """The tokens of the largest graph for steps of so many."""
    return next((size for size in TOKEN_SIZES if size >= max_tokens), TOKEN_SIZES[-1])


def token_sizes(max_tokens: int) -> tuple[int, ...]:
    """The sizes of graphs for steps of up to so many tokens."""
    return TOKEN_SIZES[: TOKEN_SIZES.index(largest_size(max_tokens)) + 1]


class ForwardGraphs:
    """Runs the forward pass of a step in a graph of its size. Where there is no card, steps are launched and have no
    padding.
    """

    def __init__(
        self, forward: Callable[[Tensor, StepSize], Tensor], device: torch.device, sizes: Sequence[int] = TOKEN_SIZES
    ) -> None:
        """`forward` computes the logits of a packed step of some size; `sizes` are those of tokens, in order."""
        self._forward = forward
        self._device = device
        self._token_sizes = sizes
        self._graphs = SizedGraphs() if device.type == "cuda" else None

    @property
    def num_graphs(self) -> int:
        return 0 if self._graphs is None else self._graphs.num_graphs

    @property
    def num_captured(self) -> int:
        """Sizes that have run, and those that have a graph."""
        return 0 if self._graphs is None else self._graphs.num_seen + self._graphs.num_graphs

    def listing(self) -> AbstractContextManager[None]:
        """Steps inside run to list their kernels, and leave nothing behind."""
        return nullcontext() if self._graphs is None else self._graphs.listing()

    def room(self, plan: StepPlan, num_logits: int) -> StepSize | None:
        """The size of the graph for a plan; None where it has none."""
        if self._graphs is None:
            return step_size(plan, num_logits) if plan.num_tokens <= self._token_sizes[-1] else None
        tokens = next((size for size in self._token_sizes if plan.num_tokens <= size), None)
        requests = next((size for size in REQUEST_SIZES if max(len(plan.requests), num_logits) <= size), None)
        if tokens is None or requests is None:
            return None
        requests = min(requests, tokens)  # each has a token
        return StepSize(tokens, requests, requests) if num_logits <= requests else None

    def run(self, plan: StepPlan, room: StepSize) -> tuple[PackedStep, Tensor]:
        """The step as it was packed, and the logits of its rows, which the next step overwrites."""
        packed = pack(plan, room)
        words = upload(packed.words, self._device)
        if self._graphs is None:
            return packed, self._forward(words, room)
        return packed, self._graphs.run(room, lambda given: self._forward(given, room), words)
