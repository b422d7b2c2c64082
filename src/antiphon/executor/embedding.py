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
    """Whole texts to vectors. The vectors belong to the caller: no later pass overwrites them."""

    def __init__(self, embedding: TextEmbedding, wanted: bool) -> None:
        self._embedding = embedding
        self.recorded = Recorded(embedding.forward(), wanted)
        #: Seconds that the last pass spent in its program; 0 where there is none.
        self.native_seconds = 0.0

    def __call__(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor) -> Tensor:
        program = self.recorded.program()
        if program is None:
            self.native_seconds = 0.0
            return self._embedding.embed(token_ids, positions, seq_start)
        vectors = program.run({"token_ids": token_ids, "positions": positions, "seq_start": seq_start})
        self.native_seconds = program.native_seconds
        return vectors


class EmbeddingExecutor:
    """Embeds whole texts in one pass."""

    def __init__(self, embedding: TextEmbedding, record: bool = True) -> None:
        self._embed = Embed(embedding, record)

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        starts = np.zeros(len(plan.counts) + 1, dtype=np.int32)
        np.cumsum(plan.counts, out=starts[1:])
        ids = torch.tensor([token for request in plan.requests for token in request.prompt], dtype=torch.int32)
        positions = np.concatenate([np.arange(count, dtype=np.int32) for count in plan.counts])
        built = time.perf_counter()
        vectors = self._embed(ids, torch.from_numpy(positions), torch.from_numpy(starts))
        timings = {"build": built - begun, "run": time.perf_counter() - built}
        result = StepResult([], outputs=list(vectors.unbind(0)), timings=timings)
        result.native_seconds = self._embed.native_seconds
        return DoneHandle(result)

    @property
    def program(self) -> Program | None:
        """The recorded forward, if it can be recorded."""
        return self._embed.recorded.program()

    def close(self) -> None:
        pass
