"""`ModelExecutor`: runs the plans of one token-by-token model. `OneShotExecutor`: those of an encoder."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import BlockCopy, StepPlan, StepResult, SwapOut
from antiphon.executor.cross import fill_cross, forward_observing
from antiphon.executor.decode_step import DecodeStep
from antiphon.executor.recorded import Embed, Forward
from antiphon.executor.rows import RowStore
from antiphon.executor.sampler import Sampler
from antiphon.executor.step_batch import build_step
from antiphon.models.bert import Bert
from antiphon.models.model import CausalLM
from antiphon.ops import KVCache
from antiphon.ops.cache import OFFSET_UNIT
from antiphon.ops.native.program import Program


@dataclass(frozen=True)
class DoneHandle:
    """A step that has already run."""

    value: StepResult

    def done(self) -> bool:
        return True

    def result(self) -> StepResult:
        return self.value


class ModelExecutor:
    """The forward pass, the sampler, and the rows and swapped blocks that outlive a step."""

    def __init__(
        self,
        model: CausalLM,
        cache: KVCache,
        *,
        max_rows: int,
        max_tokens: int,
        max_cross_tokens: int,
        vocab_size: int,
        record: bool = True,
    ) -> None:
        self._model = model
        self._cache = cache
        self._forward = Forward(model, cache, record)
        layouts = list(cache.layouts.values())
        lengths = [max_cross_tokens if layout.group.kind == "cross" else max_tokens for layout in layouts]
        self._rows = RowStore(max_rows, layouts, lengths)
        self._sampler = Sampler(self._rows, vocab_size)
        self._decode: DecodeStep | None = None
        self._swapped: dict[str, list[Tensor]] = {}

    def submit(self, plan: StepPlan) -> DoneHandle:
        """Run the plan now; on this device there is nothing to wait for afterwards."""
        begun = time.perf_counter()
        self._move(plan)
        self._rows.apply(plan)
        self._sampler.set_up(plan)
        fill_cross(plan, self._model, self._cache, self._rows)
        if not plan:
            return DoneHandle(StepResult([]))
        if plan.num_decodes == len(plan.requests) and self._sampler.is_plain(plan):
            decode = self._decode_step()
            if decode is not None:
                return DoneHandle(decode.run(plan, begun))
        step = build_step(plan, self._rows)
        built = time.perf_counter()
        logits, observed = forward_observing(plan, step, self._model, self._cache, self._forward)
        ran = time.perf_counter()
        result = self._sampler.sample(plan, step, logits)
        result.observed = observed
        sampled = time.perf_counter()
        result.timings = {"build": built - begun, "run": ran - built, "sample": sampled - ran}
        result.native_seconds = self._forward.native_seconds
        return DoneHandle(result)

    def _decode_step(self) -> DecodeStep | None:
        """Steps of one token for every request, where the forward is recorded."""
        program = self._forward.recorded.program()
        if program is None:
            return None
        if self._decode is None:
            self._decode = DecodeStep(program, self._forward, self._rows, self._sampler.vocab_size)
        return self._decode

    def _span(self, entry: int, num_bytes: int) -> Tensor:
        return self._cache.arena[entry * OFFSET_UNIT : entry * OFFSET_UNIT + num_bytes]

    def _move(self, plan: StepPlan) -> None:
        """Copies within the arena and to and from host memory, in the order in which they were decided."""
        for move in plan.moves:
            if isinstance(move, BlockCopy):
                self._span(move.target, move.num_bytes).copy_(self._span(move.source, move.num_bytes))
            elif isinstance(move, SwapOut):
                self._swapped[move.key] = [self._span(*span).clone() for span in move.spans]
            else:
                saved = self._swapped.pop(move.key)
                for span, data in zip(move.spans, saved, strict=True):
                    self._span(*span).copy_(data)
        for key in plan.dropped_keys:
            self._swapped.pop(key, None)

    @property
    def program(self) -> Program | None:
        """The recorded forward, if it can be recorded."""
        return self._forward.recorded.program()

    @property
    def swapped_bytes(self) -> int:
        return sum(data.numel() for saved in self._swapped.values() for data in saved)

    def close(self) -> None:
        self._swapped.clear()


class OneShotExecutor:
    """Embeds whole texts in one pass."""

    def __init__(self, model: Bert, record: bool = True) -> None:
        self._embed = Embed(model, record)

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
