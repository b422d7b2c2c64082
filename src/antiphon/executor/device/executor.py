"""`DeviceExecutor`: runs the plans of a token decoder on a GPU. Only reading a step's result waits for the device."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.errors import UnrecordableError
from antiphon.executor.decoder.cross import fill_cross, forward_observing
from antiphon.executor.device.ahead import compile_in_order, prompt_variants
from antiphon.executor.device.batch import StepSize, pack, unpack
from antiphon.executor.device.forward_graphs import FEW_TOKEN_SIZES, ForwardGraphs, token_sizes
from antiphon.executor.device.graphs import Chain, DecodeGraphs
from antiphon.executor.device.one_shot import on_stream, wait_for, wait_for_loading
from antiphon.executor.device.prompt_steps import PromptSteps
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.handle import DoneHandle
from antiphon.executor.recorded import make_recording
from antiphon.executor.sampling.sampler import Drawn, DrawnTokens, Sampler
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.step_batch import decode_entries, has_adapters, logit_rows_of
from antiphon.executor.swap import SwapPool
from antiphon.executor.upload import upload
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Batch, Device, KVCache
from antiphon.ops.backend import use_operations
from antiphon.ops.program import Recording
from antiphon.ops.triton.ahead.compiler import AheadCompiler
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.program.choice import Draw

logger = logging.getLogger(__name__)

#: Sampled tokens in flight to the host.
Drawing = Drawn | DrawnTokens


class DeviceHandle:
    """Step on the device. `draw` starts to sample its tokens, unless `submit` has done that."""

    def __init__(
        self,
        draw: Callable[[], Drawing],
        timings: dict[str, float],
        waiter: ThreadPoolExecutor,
        begun: torch.cuda.Event | None = None,
        is_first: bool = False,
    ) -> None:
        self._draw = draw
        self._timings = timings
        self._waiter = waiter
        self._begun = begun  # event at the start of the step
        self._is_first = is_first
        self._drawn: Drawing | None = None
        self._on_done: Callable[[], None] | None = None

    def choose(self) -> None:
        begun = time.perf_counter()
        self._drawn = drawn = self._draw()
        self._timings["build"] += time.perf_counter() - begun
        if self._on_done is not None:
            self._waiter.submit(wait_for, drawn.transfer, self._on_done)

    def notify(self, on_done: Callable[[], None]) -> None:
        """Call `on_done` when the tokens are on the host, in a thread that waits for them."""
        self._on_done = on_done

    def done(self) -> bool:
        return self._drawn is not None and self._drawn.done()

    def result(self) -> StepResult:
        assert self._drawn is not None, "the result of a step whose tokens were not drawn"
        result = self._drawn.result()
        if self._begun is not None:
            self._timings["run"] = self._drawn.transfer.seconds_since(self._begun)
        result.timings, result.is_first = self._timings, self._is_first
        return result


class DeviceExecutor:
    """Runs a token decoder on a GPU, as CUDA graphs where possible.

    Steps of one token for each request are graphs, which may include sampling, and forward passes with prompts are
    graphs too. Steps that read more than the last logits, or have adapters, are launched operation by operation.
    In batch-invariant mode every step is such a forward pass, with operations that treat every row alike.
    """

    #: True: `choose` samples the tokens, except that `submit` does if no request needs more than its unedited logits.
    late_choice = True

    def __init__(
        self,
        decoder: TokenDecoder,
        cache: KVCache,
        device: Device,
        *,
        max_rows: int,
        max_tokens: int,
        vocab_size: int,
        max_step_tokens: int = 8192,
        record: bool = True,
        batch_invariant: bool = False,
    ) -> None:
        self._decoder, self._cache, self._device = decoder, cache, device
        self._operations = ops.invariant_backend(device.backend.name) if batch_invariant else None
        layouts = list(cache.layouts.values())
        lengths = [
            max_tokens
            if decoder.cross is None or layout.group.name != decoder.cross.group
            else decoder.cross.num_states
            for layout in layouts
        ]
        self._cross_tokens = 0 if decoder.cross is None else decoder.cross.num_states
        self._rows = DeviceRows(max_rows, layouts, lengths, device.torch)
        self._sampler = Sampler(self._rows, vocab_size, device.torch)
        self._swap = SwapPool(cache.arena)
        #: Thread that waits for steps if an engine has several devices; steps end in the order of their launch.
        self._waiter = ThreadPoolExecutor(1, f"antiphon-{device.name}-wait")
        self._max_tokens = max_tokens
        #: Whether steps with drafts run as decode steps; until these kernels are compiled, they run like prompts.
        self._can_chain = True
        self._drawn_rows: set[int] = set()  # numbers of rows that were sampled outside a graph
        self._ahead: AheadCompiler | None = None
        self._prompt_steps: PromptSteps | None = None
        self._graphs: DecodeGraphs | None = None
        self._forwards: ForwardGraphs | None = None
        # Not on the stream of steps, where another model's graph may be captured now.
        if record:
            with torch.inference_mode(), self._mode():
                self._record(max_rows, vocab_size, max_step_tokens + max_rows)
        wait_for_loading(device)

    def compile_ahead(self, compiler: AheadCompiler, speculates: bool = False) -> None:
        """Compile the kernels of prompts and of small decode steps, then those of other steps in the background.

        If the model `speculates`, the kernels of steps with drafts are compiled before the return too. Must be called
        before the first step, in any thread: nothing is launched on the stream of steps.
        """
        self._ahead = compiler
        prompts = self._prompt_kernels() if self._decoder.cross is None else ()
        graphs = self._graphs
        steps = iter(()) if graphs is None else graphs.variants(self._max_tokens)
        chained = iter(()) if graphs is None else graphs.chained_variants(self._max_tokens)
        self._can_chain = False
        own = weakref.ref(self)  # a thread that compiles must not keep the memory of a closed executor

        def begin_to_chain() -> None:
            executor = own()
            if executor is not None:
                executor._can_chain = True

        with torch.inference_mode(), on_stream(self._device):
            compile_in_order(compiler, prompts, steps, chained, speculates, self._decoder.owner, begin_to_chain)

    def _prompt_kernels(self) -> Iterable[Variant]:
        """Collect the kernels of steps with prompts, and free the steps."""
        with self._mode(), nullcontext() if self._forwards is None else self._forwards.listing():
            found = prompt_variants(self._rows, self._max_tokens, lambda plan: self._launch(plan)())
        if self._prompt_steps is not None:
            self._prompt_steps.forget()
        return found

    def _record(self, max_rows: int, vocab_size: int, max_step_tokens: int) -> None:
        """Lower the model's recording to kernels; steps without kernels run operation by operation."""
        decoder, compute_type = self._decoder, self._device.compute_type
        eager = self._device.stream is not None
        forward: Callable[[Tensor, StepSize], Tensor] | None = self._unpacked_forward if eager else None
        sizes = token_sizes(max_step_tokens)
        if self._operations is not None:  # batch-invariant: decode steps too are graphs of its own operations
            sizes = (*FEW_TOKEN_SIZES, *sizes)
        else:
            try:
                recording = make_recording(decoder.step(self._cache))
                self._graphs = DecodeGraphs(recording, self._rows, max_rows, vocab_size, compute_type)
                if decoder.cross is None:
                    forward = self._prompts(recording, max_rows, max_step_tokens) or forward
            except UnrecordableError as error:
                logger.warning("%s runs operation by operation: %s", decoder.owner, error)
        if forward is not None:
            self._forwards = ForwardGraphs(forward, self._rows.device, sizes)

    def _prompts(
        self, recording: Recording, max_rows: int, max_step_tokens: int
    ) -> Callable[[Tensor, StepSize], Tensor] | None:
        """Lower the forward of steps with prompts to kernels; return None if that is not possible."""
        try:
            steps = PromptSteps(recording, self._rows, max_rows, max_step_tokens, self._device.compute_type)
        except UnrecordableError as error:
            logger.debug("%s computes prompts operation by operation: %s", self._decoder.owner, error)
            return None
        self._prompt_steps = steps
        return steps.run

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute on the device's stream, with the operations of batch-invariant mode if it is on."""
        with torch.inference_mode(), on_stream(self._device), self._mode():
            yield

    def _mode(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._operations is None else use_operations(self._operations)

    def submit(self, plan: StepPlan) -> DeviceHandle | DoneHandle:
        """Launch the forward pass, including sampling if its graph does that."""
        begun = time.perf_counter()
        started: torch.cuda.Event | None = None
        with self._computing():
            if self._device.stream is not None:
                started = torch.cuda.Event(enable_timing=True)
                started.record()
            self._swap.move(plan)
            self._rows.apply(plan)
            self._sampler.set_up(plan)
            fill_cross(plan, self._decoder.cross, self._cache)
            if not plan:
                return DoneHandle(StepResult([]))
            captured = self._num_captured
            draw = self._launch(plan)
        timings = {"build": time.perf_counter() - begun}
        is_first = self._num_captured != captured
        return DeviceHandle(partial(self._choose, draw), timings, self._waiter, started, is_first)

    @property
    def _num_captured(self) -> int:
        """Count that grows when kernels of a new size are launched or a graph is captured."""
        forwards = 0 if self._forwards is None else self._forwards.num_captured
        return self.num_decode_steps + forwards + len(self._drawn_rows)

    def _launch(self, plan: StepPlan) -> Callable[[], Drawing]:
        """Launch the forward pass, and return a function that starts to sample the tokens."""
        graphs = self._graphs
        if graphs is not None and _is_decode(plan):
            rows, longest = [request.row for request in plan.requests], max(max(plan.starts) + 1, self._cross_tokens)
            if self._sampler.is_plain(plan):
                transfer = Transfer()
                transfer.add(graphs.run(rows, longest, Draw.FILTERED if _filters(plan) else Draw.PLAIN))
                transfer.start()
                return partial(DrawnTokens, transfer)
            logits = graphs.run(rows, longest, Draw.NOTHING)
            return partial(self._sampler.draw, plan, decode_entries(plan), logits)
        if graphs is not None and self._can_chain and _verifies(plan) and plan.num_tokens <= graphs.chained_rows:
            return self._launch_chained(plan, graphs)
        num_logits = _num_logits(plan)
        self._drawn_rows.add(num_logits)
        room = None if self._forwards is None or not _is_plain(plan) else self._forwards.room(plan, num_logits)
        if self._forwards is not None and room is not None:
            packed, logits = self._forwards.run(plan, room)
            return partial(self._sampler.draw, plan, packed.entries, logits[:num_logits])
        packed = pack(plan)
        words = upload(packed.words, self._rows.device)
        batch = unpack(words, packed.size, self._rows, packed.num_decodes, packed.adapted)
        cross = self._decoder.cross
        logits, observed = forward_observing(plan, batch, cross, self._cache, self._forward)
        return partial(self._sampler.draw, plan, packed.entries, logits, observed=observed)

    def _launch_chained(self, plan: StepPlan, graphs: DecodeGraphs) -> Callable[[], Drawing]:
        """Launch a decode step in which drafted tokens are rows after the newest token of their request.

        The step does not advance the rows of requests with drafts: the host knows the kept tokens before the next step.
        """
        rows, tokens, offsets = list[int](), list[int](), list[int]()
        for entry, (request, count) in enumerate(zip(plan.requests, plan.counts, strict=True)):
            rows += [request.row] * count
            tokens += plan.tokens_of(entry) if entry in plan.drafts else [-1]
            offsets += range(count)
        ends = [start + count for start, count in zip(plan.starts, plan.counts, strict=True)]
        own_rows = np.array([request.row for request in plan.requests], dtype=np.int64)
        query_start = np.cumsum([0, *plan.counts]).astype(np.int32)
        _, entries = logit_rows_of(plan, own_rows, query_start)
        self._rows.leave(plan.requests[entry].row for entry in plan.drafts)
        is_plain = self._sampler.is_plain(plan)
        draw = Draw.NOTHING if not is_plain else Draw.FILTERED if _filters(plan) else Draw.PLAIN
        result = graphs.run(rows, max(*ends, self._cross_tokens), draw, Chain(tokens, offsets))
        if not is_plain:
            return partial(self._sampler.draw, plan, entries, result)
        transfer = Transfer()
        transfer.add(result)
        transfer.start()
        return partial(DrawnTokens, transfer, entries.drafts)

    def _unpacked_forward(self, words: Tensor, size: StepSize) -> Tensor:
        return self._forward(unpack(words, size, self._rows))

    def _forward(self, batch: Batch) -> Tensor:
        return self._decoder.forward(batch, self._cache)

    def _choose(self, draw: Callable[[], Drawing]) -> Drawing:
        with self._computing():
            return draw()

    @property
    def program(self) -> None:
        """Always None: CPU programs only."""
        return None

    @property
    def num_decode_steps(self) -> int:
        """Number of sizes of decode steps that were lowered to kernels, which graphs launch on a GPU."""
        return 0 if self._graphs is None else self._graphs.num_steps

    def close(self) -> None:
        """Wait for the device, then free graphs and swapped blocks."""
        if self._ahead is not None:
            self._ahead.cancel()
        if self._device.stream is not None:
            self._device.stream.synchronize()
        self._graphs = self._forwards = self._prompt_steps = None
        self._swap.clear()
        self._waiter.shutdown(wait=False)


def _is_decode(plan: StepPlan) -> bool:
    """Return whether every request computes and samples one token, with only the model's own forward."""
    return plan.num_decodes == len(plan.requests) and all(plan.samples) and _is_plain(plan) and not _num_probed(plan)


def _verifies(plan: StepPlan) -> bool:
    """Return whether every request computes its newest token, some with drafts, with only the model's own forward."""
    return plan.num_answering == len(plan.requests) and bool(plan.drafts) and _is_plain(plan) and not _num_probed(plan)


def _is_plain(plan: StepPlan) -> bool:
    """Return whether a step reads only the logits of last tokens, drafts and probes, by the model's own forward."""
    if has_adapters(plan):
        return False
    reads_prompt = any(
        request.params.prompt_logprobs and start < request.num_prompt_tokens
        for request, start in zip(plan.requests[plan.num_decodes :], plan.starts[plan.num_decodes :], strict=True)
    )
    return not reads_prompt and not any(request.observes for request in plan.requests)


def _num_probed(plan: StepPlan) -> int:
    """Count the requests whose probe reads the logits of a token of this step."""
    triples = zip(plan.requests, plan.starts, plan.counts, strict=True)
    return sum(
        request.probe is not None and start <= request.probe[0] < start + count for request, start, count in triples
    )


def _num_logits(plan: StepPlan) -> int:
    """Count the rows of logits of a plain step."""
    return sum(plan.samples) + plan.num_drafted_tokens + _num_probed(plan)


def _filters(plan: StepPlan) -> bool:
    """Return whether a request of the plan samples from only a part of the vocabulary."""
    return any(
        params.temperature > 0 and (params.top_k > 0 or params.top_p < 1 or params.min_p > 0)
        for params in (request.params for request in plan.requests)
    )
