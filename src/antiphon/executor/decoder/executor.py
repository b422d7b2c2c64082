"""`DecoderExecutor`: runs the plans of a token decoder."""

from __future__ import annotations

import time
from functools import partial

from torch import Tensor

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.decoder.cross import fill_cross, forward_observing
from antiphon.executor.decoder.decode_step import DecodeStep
from antiphon.executor.decoder.forward import Forward
from antiphon.executor.handle import DoneHandle, ForwardHandle
from antiphon.executor.rows import RowStore
from antiphon.executor.sampling.sampler import Sampler
from antiphon.executor.step_batch import StepBatch, build_step, has_adapters
from antiphon.executor.swap import SwapPool
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import KVCache
from antiphon.ops.native.program import Program


class DecoderExecutor:
    """Runs a token decoder on the CPU; rows and swapped-out blocks persist between steps."""

    #: True: `choose` samples the tokens, except that `submit` does if no request needs more than its unedited logits.
    late_choice = True

    def __init__(
        self,
        decoder: TokenDecoder,
        cache: KVCache,
        *,
        max_rows: int,
        max_tokens: int,
        vocab_size: int,
        record: bool = True,
    ) -> None:
        self._decoder = decoder
        self._cache = cache
        self._forward = Forward(decoder, cache, record)
        layouts = list(cache.layouts.values())
        max_cross_tokens = 0 if decoder.cross is None else decoder.cross.num_states
        lengths = [max_cross_tokens if layout.group.kind == "cross" else max_tokens for layout in layouts]
        self._rows = RowStore(max_rows, layouts, lengths)
        self._sampler = Sampler(self._rows, vocab_size)
        self._decode_steps: dict[bool, DecodeStep] = {}  # by whether the step has adapters
        self._swap = SwapPool(cache.arena)

    def submit(self, plan: StepPlan) -> DoneHandle | ForwardHandle:
        """Run the forward pass before returning."""
        begun = time.perf_counter()
        self._swap.move(plan)
        self._rows.apply(plan)
        self._sampler.set_up(plan)
        fill_cross(plan, self._decoder.cross, self._cache)
        if not plan:
            return DoneHandle(StepResult([]))
        if plan.num_answering == len(plan.requests) and self._sampler.is_plain(plan):
            decode = self._recorded_decode(has_adapters(plan))
            if decode is not None:
                return DoneHandle(decode.run(plan, begun))
        step = build_step(plan, self._rows)
        built = time.perf_counter()
        logits, observed = forward_observing(plan, step.batch, self._decoder.cross, self._cache, self._forward)
        ran = time.perf_counter()
        result = StepResult([], observed=observed, timings={"build": built - begun, "run": ran - built})
        result.native_seconds = self._forward.native_seconds
        return ForwardHandle(partial(self._draw, plan, step, logits, result))

    def _draw(self, plan: StepPlan, step: StepBatch, logits: Tensor, forward: StepResult) -> StepResult:
        """Sample the tokens from a step's logits, and add the observations and timings of its forward pass."""
        begun = time.perf_counter()
        result = self._sampler.sample(plan, step, logits)
        result.observed, result.native_seconds = forward.observed, forward.native_seconds
        result.timings = {**forward.timings, "sample": time.perf_counter() - begun}
        return result

    def _recorded_decode(self, adapted: bool) -> DecodeStep | None:
        """Return the native step for newest tokens and drafts; None if the forward is not recorded."""
        program = (self._forward.adapted if adapted else self._forward.recorded).program()
        if program is None:
            return None
        if adapted not in self._decode_steps:
            vocab_size = self._sampler.vocab_size
            self._decode_steps[adapted] = DecodeStep(program, self._forward, self._rows, vocab_size, adapted)
        return self._decode_steps[adapted]

    @property
    def program(self) -> Program | None:
        """Recorded forward; None if it cannot be recorded."""
        return self._forward.recorded.program()

    def close(self) -> None:
        self._swap.clear()
