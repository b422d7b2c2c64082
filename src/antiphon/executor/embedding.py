"""`EmbeddingExecutor`: whole texts to vectors, those of many requests in one pass."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.handle import DoneHandle
from antiphon.executor.recorded import Recorded
from antiphon.models.base.parts import TextEmbedding
from antiphon.ops.native.program import Program


class Embed:
    """Whole texts to vectors. The vectors belong to the caller: no later pass overwrites them.

    Without `token_types` every token of a pair is of the first text.
    """

    def __init__(self, embedding: TextEmbedding, wanted: bool) -> None:
        self._embedding = embedding
        self.recorded = Recorded(embedding.forward(), wanted)
        #: Seconds that the last pass spent in its program; 0 where there is none.
        self.native_seconds = 0.0

    def __call__(
        self, token_ids: Tensor, positions: Tensor, seq_start: Tensor, token_types: Tensor | None = None
    ) -> Tensor:
        inputs = {"token_ids": token_ids, "positions": positions, "seq_start": seq_start}
        if self._embedding.takes_pairs:
            inputs["token_types"] = torch.zeros_like(token_ids) if token_types is None else token_types
        program = self.recorded.program()
        if program is None:
            self.native_seconds = 0.0
            vectors = self._embedding.embed(**inputs)
        else:
            vectors = program.run(inputs)
            self.native_seconds = program.native_seconds
        return vectors if self._embedding.head is None else self._embedding.head(vectors)


class EmbeddingExecutor:
    """Embeds whole texts in one pass."""

    def __init__(self, embedding: TextEmbedding, record: bool = True) -> None:
        self._embed = Embed(embedding, record)
        self._takes_pairs = embedding.takes_pairs

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        starts = np.zeros(len(plan.counts) + 1, dtype=np.int32)
        np.cumsum(plan.counts, out=starts[1:])
        ids = torch.tensor([token for request in plan.requests for token in request.prompt], dtype=torch.int32)
        positions = np.concatenate([np.arange(count, dtype=np.int32) for count in plan.counts])
        types = self._token_types(plan) if self._takes_pairs else None
        built = time.perf_counter()
        vectors = self._embed(ids, torch.from_numpy(positions), torch.from_numpy(starts), types)
        timings = {"build": built - begun, "run": time.perf_counter() - built}
        result = StepResult([], outputs=list(vectors.unbind(0)), timings=timings)
        result.native_seconds = self._embed.native_seconds
        return DoneHandle(result)

    @staticmethod
    def _token_types(plan: StepPlan) -> Tensor:
        """A request's `inputs` is where the second text of a pair begins."""
        types = [np.arange(count) >= request.inputs for request, count in zip(plan.requests, plan.counts, strict=True)]
        return torch.from_numpy(np.concatenate(types).astype(np.int32))

    @property
    def program(self) -> Program | None:
        """The recorded forward, if it can be recorded."""
        return self._embed.recorded.program()

    def close(self) -> None:
        pass
