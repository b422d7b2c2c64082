"""`EmbeddingExecutor`: embeds whole texts of many requests in one pass."""

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


class EmbeddingExecutor:
    """Embeds whole texts in one pass. The vectors belong to the caller: no later pass overwrites them."""

    def __init__(self, embedding: TextEmbedding, record: bool = True) -> None:
        self._embedding = embedding
        self._recorded = Recorded(embedding.forward(), record)

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        starts = np.zeros(len(plan.counts) + 1, dtype=np.int32)
        np.cumsum(plan.counts, out=starts[1:])
        ids = torch.tensor([token for request in plan.requests for token in request.prompt], dtype=torch.int32)
        positions = np.concatenate([np.arange(count, dtype=np.int32) for count in plan.counts])
        inputs = {"token_ids": ids, "positions": torch.from_numpy(positions), "seq_start": torch.from_numpy(starts)}
        if self._embedding.takes_pairs:
            inputs["token_types"] = self._token_types(plan)
        built = time.perf_counter()
        vectors = self.embed(inputs)
        timings = {"build": built - begun, "run": time.perf_counter() - built}
        native_seconds = 0.0 if self.program is None else self.program.native_seconds
        outputs = list(vectors.unbind(0))
        return DoneHandle(StepResult([], outputs=outputs, timings=timings, native_seconds=native_seconds))

    def embed(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the vectors of texts laid end to end, by the recorded program if there is one."""
        program = self.program
        vectors = self._embedding.embed(**inputs) if program is None else program.run(inputs)
        return vectors if self._embedding.head is None else self._embedding.head(vectors)

    @staticmethod
    def _token_types(plan: StepPlan) -> Tensor:
        """Return 0 for tokens of a pair's first text, 1 for its second text, which begins at the request's `inputs`."""
        types = [np.arange(count) >= request.inputs for request, count in zip(plan.requests, plan.counts, strict=True)]
        return torch.from_numpy(np.concatenate(types).astype(np.int32))

    @property
    def program(self) -> Program | None:
        """Recorded forward; None if it cannot be recorded."""
        return self._recorded.program()

    def close(self) -> None:
        pass
