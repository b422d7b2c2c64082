"""Tokens from logits: batched over requests with different parameters, with log-probabilities where requested."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.rows import RowStore
from antiphon.executor.sampling.logit_edits import LogitEdits, edits_of
from antiphon.executor.step_batch import StepBatch
from antiphon.ops import SamplingRows


class Sampler:
    """Keeps the edits of the rows that have any; everything else is in the row store."""

    def __init__(self, store: RowStore, vocab_size: int) -> None:
        self._store = store
        self.vocab_size = vocab_size
        self._edits: dict[int, LogitEdits] = {}

    def set_up(self, plan: StepPlan) -> None:
        """Set up the rows that the plan gave to requests, and free the edits of requests that left theirs."""
        if self._edits:
            self._edits = {row: edits for row, edits in self._edits.items() if edits.request.row == row}
        for setup in plan.row_setups:
            row = setup.request.row
            edits = edits_of(setup.request)
            self._edits.pop(row, None)
            if edits is not None and row >= 0:
                self._edits[row] = edits

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

    def sample(self, plan: StepPlan, step: StepBatch, logits: Tensor) -> StepResult:
        """Draw the tokens of the sampling entries and write them to their rows."""
        # Rows of the head beyond the tokenizer's vocabulary are padding and must never be drawn.
        logits = logits[:, : self.vocab_size]
        result = StepResult([])
        for entry, (first, last) in step.prompt_rows.items():
            self._report_prompt(plan, entry, logits[first:last], result)
        for entry, row in step.probe_rows.items():
            probe = plan.requests[entry].probe
            assert probe is not None
            result.probed[entry] = float(logits[row].float().softmax(-1)[probe[1]])
        if not step.sample_entries:
            return result
        if step.sample_rows is not None:
            logits = logits[step.sample_rows]
        rows = step.rows if len(step.sample_entries) == len(step.rows) else step.rows[step.sample_entries]
        wanted = [
            place for place, entry in enumerate(step.sample_entries) if plan.requests[entry].params.logprobs is not None
        ]
        raw = logits[wanted].float().log_softmax(-1) if wanted else None
        failures = self._edit(step, rows, logits) if self._edits else {}
        has_rules = any(plan.requests[entry].rules is not None for entry in step.sample_entries)
        drawn, logprobs = ops.sample(logits, self._rows(rows), logprobs=has_rules)
        tokens: list[int] = drawn.tolist()
        self._store.last_token[rows] = tokens
        self._store.output_index[rows] += 1
        if self._edits:
            for place, row in enumerate(rows.tolist()):
                if row in self._edits:
                    self._edits[row].took(tokens[place])
        result.tokens, result.failures = tokens, failures
        result.drawn_logprobs = None if logprobs is None else logprobs.tolist()
        self._search(plan, step, logits, result)
        if raw is not None:
            self._report(plan, step, wanted, raw, result)
        return result

    @staticmethod
    def _search(plan: StepPlan, step: StepBatch, logits: Tensor, result: StepResult) -> None:
        """The likeliest tokens of rows that are hypotheses of a search: enough for all of its beams and an end."""
        for place, entry in enumerate(step.sample_entries):
            beam = plan.requests[entry].beam
            if beam is not None:
                values, ids = logits[place].float().log_softmax(-1).topk(beam.width + 1)
                result.candidates[entry] = list(zip(ids.tolist(), values.tolist(), strict=True))

    def _edit(self, step: StepBatch, rows: np.ndarray, logits: Tensor) -> dict[int, str]:
        """Apply the rows' own edits. One that fails is reported by entry; the others of the step continue."""
        failures = {}
        for place, row in enumerate(rows.tolist()):
            edits = self._edits.get(row)
            if edits is None or edits.request.is_ended:
                continue  # a request that ended while the step was in flight has no next token
            try:
                edits.apply(logits[place])
            except Exception as error:
                failures[step.sample_entries[place]] = f"{type(error).__name__}: {error}"
        return failures

    def _rows(self, rows: np.ndarray) -> SamplingRows:
        store = self._store
        columns = (store.temperature, store.top_k, store.top_p, store.min_p, store.seed, store.output_index)
        return SamplingRows(*(torch.from_numpy(column[rows]) for column in columns))

    @staticmethod
    def _report(plan: StepPlan, step: StepBatch, wanted: list[int], raw: Tensor, result: StepResult) -> None:
        """Log-probabilities under the model's own logits, before any edit."""
        result.logprobs = [0.0] * len(result.tokens)
        top: list[list[tuple[int, float]] | None] = [None] * len(result.tokens)
        for index, place in enumerate(wanted):
            result.logprobs[place] = float(raw[index, result.tokens[place]])
            count = plan.requests[step.sample_entries[place]].params.logprobs or 0
            if count:
                values, ids = raw[index].topk(min(count, raw.shape[1]))
                top[place] = list(zip(ids.tolist(), values.tolist(), strict=True))
        result.top_logprobs = top

    @staticmethod
    def _report_prompt(plan: StepPlan, entry: int, logits: Tensor, result: StepResult) -> None:
        """Log-probabilities of the prompt's tokens that this chunk predicts: those at its positions plus one."""
        request, start = plan.requests[entry], plan.starts[entry]
        predicted = request.prompt[start + 1 : start + 1 + len(logits)]
        logprobs = logits[: len(predicted)].float().log_softmax(-1)
        picked = logprobs.gather(-1, torch.tensor(predicted, dtype=torch.int64)[:, None])
        result.prompt_logprobs[entry] = picked[:, 0].tolist()
        params = request.params
        if params.prompt_top_logprobs is not None:
            result.prompt_ranks[entry] = (logprobs >= picked).sum(-1).tolist()
        count = params.logprobs if params.prompt_top_logprobs is None else params.prompt_top_logprobs
        if count:
            values, ids = logprobs.topk(min(count, logprobs.shape[1]))
            pairs = zip(ids.tolist(), values.tolist(), strict=True)
            result.prompt_top_logprobs[entry] = [list(zip(*pair, strict=True)) for pair in pairs]
