"""`ForwardGraphs`: steps with prompts as CUDA graphs, by the numbers of tokens and requests that fit in these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.batch import PackedStep, StepSize, pack, step_size
from antiphon.executor.device.sized_graphs import SizedGraphs
from antiphon.executor.upload import upload

#: Numbers of tokens in the graphs; a step is padded to the next size. The last has room for decodes beside prompts.
TOKEN_SIZES = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 8448)
#: Smaller sizes, for steps of one token for each request if these have no graphs of their own.
FEW_TOKEN_SIZES = (1, 4, 16, 32)
#: Numbers of requests, and of rows of logits, in the graphs.
REQUEST_SIZES = (16, 64, 256)


def largest_size(max_tokens: int) -> int:
    """Return the number of tokens in the largest graph for steps of up to `max_tokens` tokens."""
    return next((size for size in TOKEN_SIZES if size >= max_tokens), TOKEN_SIZES[-1])


def token_sizes(max_tokens: int) -> tuple[int, ...]:
    """Return the numbers of tokens in the graphs for steps of up to `max_tokens` tokens."""
    return TOKEN_SIZES[: TOKEN_SIZES.index(largest_size(max_tokens)) + 1]


class ForwardGraphs:
    """Runs the forward pass of a step in a graph of its size. Without a card, steps are launched without padding."""

    def __init__(
        self, forward: Callable[[Tensor, StepSize], Tensor], device: torch.device, sizes: Sequence[int] = TOKEN_SIZES
    ) -> None:
        """Prepare graphs of `forward`, which computes the logits of a packed step, for `sizes` tokens, ascending."""
        self._forward = forward
        self._device = device
        self._token_sizes = sizes
        self._graphs = SizedGraphs() if device.type == "cuda" else None

    @property
    def num_graphs(self) -> int:
        return 0 if self._graphs is None else self._graphs.num_graphs

    @property
    def num_captured(self) -> int:
        """Number of sizes that have run, plus the number of graphs."""
        return 0 if self._graphs is None else self._graphs.num_seen + self._graphs.num_graphs

    def listing(self) -> AbstractContextManager[None]:
        """Run the steps of a `with` block only to list their kernels, without graphs."""
        return nullcontext() if self._graphs is None else self._graphs.listing()

    def room(self, plan: StepPlan, num_logits: int) -> StepSize | None:
        """Return the size of the graph for a plan; None if no graph is large enough."""
        if self._graphs is None:
            return step_size(plan, num_logits) if plan.num_tokens <= self._token_sizes[-1] else None
        tokens = next((size for size in self._token_sizes if plan.num_tokens <= size), None)
        requests = next((size for size in REQUEST_SIZES if max(len(plan.requests), num_logits) <= size), None)
        if tokens is None or requests is None:
            return None
        requests = min(requests, tokens)  # each request has a token
        return StepSize(tokens, requests, requests) if num_logits <= requests else None

    def run(self, plan: StepPlan, room: StepSize) -> tuple[PackedStep, Tensor]:
        """Run a step. Return it as it was packed, and the logits of its rows, which the next step overwrites."""
        packed = pack(plan, room)
        words = upload(packed.words, self._device)
        if self._graphs is None:
            return packed, self._forward(words, room)
        return packed, self._graphs.run(room, lambda given: self._forward(given, room), words)
