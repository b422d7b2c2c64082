"""Tokens from logits: batched over requests with different parameters, with log-probabilities where requested."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.rows import RowStore
from antiphon.executor.sampling.edit_batch import EditBatch, Mask
from antiphon.executor.sampling.readings import BeamReadings, Readings
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.step_batch import StepBatch
from antiphon.ops import SamplingRows


class Sampler:
    """Keeps the edits of the rows that have any; everything else is in the row store."""

    def __init__(self, store: RowStore, vocab_size: int, device: torch.device | None = None) -> None:
        self._store = store
        self.vocab_size = vocab_size
        self._edits = EditBatch(vocab_size, device or torch.device("cpu"))

    def set_up(self, plan: StepPlan) -> None:
        """Set up the rows that the plan gave to requests, and free the edits of requests that left theirs."""
        if self._edits:
            self._edits.remove_left()
        for setup in plan.row_setups:
            self._edits.set_up(setup.request)

    def is_plain(self, plan: StepPlan) -> bool:
        """Whether the plan's requests need only a token drawn from their unedited logits."""
        edits = self._edits
        return all(
            request.row not in edits
            and request.params.logprobs is None
            and request.beam is None
            and not request.observes
            for request in plan.requests
        )

    def masks(self, plan: StepPlan) -> list[Mask]:
        """The grammars' masks for the sampling entries, in order. Each follows the request's committed tokens."""
        requests = [request for request, samples in zip(plan.requests, plan.samples, strict=True) if samples]
        if not self._edits:
            return [None] * len(requests)
        return [self._edits.mask(request.row) for request in requests]

    def sample(self, plan: StepPlan, step: StepBatch, logits: Tensor, masks: list[Mask] | None = None) -> StepResult:
        """Draw the tokens of the sampling entries and write them to their rows.

        `masks` are those of `masks(plan)`; they are asked for here unless they are given. The logits may be changed.
        """
        # Rows of the head beyond the tokenizer's vocabulary are padding and must never be drawn.
        logits = logits[:, : self.vocab_size]
        readings, transfer = Readings(plan, step, logits), Transfer()
        result = StepResult([])
        if not step.sample_entries:
            readings.read(None, transfer)
            transfer.fetch()
            readings.report(transfer, result)
            return result
        if step.sample_rows is not None:
            logits = logits[torch.tensor(step.sample_rows, device=logits.device)]
        rows = step.rows if len(step.sample_entries) == len(step.rows) else step.rows[step.sample_entries]
        if self._edits:
            result.failures = self._edit(step, rows, logits, self.masks(plan) if masks is None else masks)
        has_rules = any(plan.requests[entry].rules is not None for entry in step.sample_entries)
        drawn, logprobs = ops.sample(logits, self._rows(rows), logprobs=has_rules)
        if self._edits:
            self._edits.count(rows.tolist(), drawn)
        tokens = transfer.add(drawn)
        drawn_logprobs = None if logprobs is None else transfer.add(logprobs)
        readings.read(drawn, transfer)
        beams = BeamReadings(plan, step, logits, transfer)
        transfer.fetch()
        result.tokens = transfer[tokens].tolist()
        result.drawn_logprobs = None if drawn_logprobs is None else transfer[drawn_logprobs].tolist()
        self._store.last_token[rows] = transfer[tokens]
        self._store.output_index[rows] += 1
        readings.report(transfer, result)
        beams.report(transfer, result)
        return result

    def _edit(self, step: StepBatch, rows: np.ndarray, logits: Tensor, masks: list[Mask]) -> dict[int, str]:
        """Apply the rows' edits. One that fails is reported by entry; the others of the step continue."""
        edits, failures = self._edits.build(rows.tolist(), masks)
        if edits:
            ops.edit_logits(logits, edits)
        return {step.sample_entries[place]: f"{type(error).__name__}: {error}" for place, error in failures.items()}

    def _rows(self, rows: np.ndarray) -> SamplingRows:
        store = self._store
        columns = (store.temperature, store.top_k, store.top_p, store.min_p, store.seed, store.output_index)
        return SamplingRows(*(torch.from_numpy(column[rows]) for column in columns))
