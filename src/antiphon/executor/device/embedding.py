"""`DeviceEmbeddingExecutor`: embeds whole texts of many requests in one pass on a GPU."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.one_shot import OneShotExecutor, Outputs
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.upload import upload_constant
from antiphon.models.base.parts import TextEmbedding
from antiphon.ops import Device

#: Numbers of tokens and of texts in the graphs; a pass is padded to the next size.
TOKEN_SIZES = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8193)
TEXT_SIZES = (1, 4, 16, 64, 256)


class PassSize(NamedTuple):
    """Numbers of tokens and texts that a pass has room for."""

    tokens: int
    texts: int


def room_for(tokens: int, texts: int) -> PassSize | None:
    """Return the size of the graph for a pass; None if no graph is large enough.

    The size has more tokens than the pass: padding texts begin and end at the first padding token.
    """
    wide = next((size for size in TOKEN_SIZES if tokens < size), None)
    long = next((size for size in TEXT_SIZES if texts <= size), None)
    return None if wide is None or long is None else PassSize(wide, long)


class DeviceEmbeddingExecutor(OneShotExecutor):
    """Embeds texts on a GPU. A pass has one upload, and one transfer of its vectors to the host."""

    def __init__(self, embedding: TextEmbedding, device: Device, record: bool = True) -> None:
        super().__init__(device, record)
        self._embedding = embedding

    def _launch(self, plan: StepPlan, transfer: Transfer) -> Outputs:
        count, tokens = len(plan.requests), plan.num_tokens
        room = None if self._graphs is None else room_for(tokens, count)
        size = room or PassSize(tokens, count)
        words = upload_constant(self._pack(plan, size), self._device.torch)
        compute = partial(self._embed, size)
        vectors = compute(words) if self._graphs is None or room is None else self._graphs.run(room, compute, words)
        number = transfer.add(vectors[:count])
        return lambda arrived: [torch.from_numpy(vector.copy()) for vector in arrived[number]]

    def _pack(self, plan: StepPlan, size: PassSize) -> NDArray[np.int32]:
        """Pack ids, positions and types by token, then the first token of each text."""
        by_token = np.zeros((3, size.tokens), dtype=np.int32)
        starts = np.full(size.texts + 1, plan.num_tokens, dtype=np.int32)
        first = 0
        for index, (request, length) in enumerate(zip(plan.requests, plan.counts, strict=True)):
            own = by_token[:, first : first + length]
            own[0], own[1], starts[index] = request.prompt, np.arange(length), first
            if self._embedding.takes_pairs:
                own[2] = own[1] >= request.inputs  # `inputs` is the first token of the second text of a pair
            first += length
        return np.concatenate([by_token.reshape(-1), starts])

    def _embed(self, size: PassSize, words: Tensor) -> Tensor:
        """Compute vectors fp32 [texts, width]; those of padding texts are arbitrary."""
        embedding = self._embedding
        ids, positions, types, starts = words.split((*(size.tokens,) * 3, size.texts + 1))
        vectors = embedding.embed(ids, positions, starts, *((types,) if embedding.takes_pairs else ())).float()
        return vectors if embedding.head is None else embedding.head(vectors)
