"""Sampling of tokens, batched over requests with different parameters, with log-probabilities where requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon import ops
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.draft_rows import DraftRows
from antiphon.executor.sampling.edit_batch import EditBatch, Mask
from antiphon.executor.sampling.readings import BeamReadings, Readings
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.step_batch import StepEntries
from antiphon.executor.upload import upload_numbers


class SampledRows(Protocol):
    """Store of rows as the sampler uses it."""

    def draw(
        self, rows: NDArray[np.int64], logits: Tensor, logprobs: bool, drafts: DraftRows | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Sample a token for each row with the row's parameters, and store it as the row's last; see `ops.sample`.

        With drafts, `rows` repeats a row for each token that it may keep; the last kept token is stored.
        """


@dataclass(frozen=True)
class Drawn:
    """Sampled tokens in flight to the host, with the readings of the logits."""

    transfer: Transfer
    readings: Readings
    beams: BeamReadings | None = None
    tokens: int = 0  # number in the transfer
    logprobs: int | None = None  # number in the transfer
    failures: dict[int, str] = field(default_factory=dict)
    observed: dict[int, int] = field(default_factory=dict)  # entry → number in the transfer
    drafts: DraftRows | None = None

    def done(self) -> bool:
        return self.transfer.has_arrived

    def result(self) -> StepResult:
        transfer, result = self.transfer, StepResult([])
        transfer.fetch()
        result.observed = {entry: torch.from_numpy(transfer[number]) for entry, number in self.observed.items()}
        if self.beams is not None:
            result.tokens = transfer[self.tokens].tolist()
            result.kept = {} if self.drafts is None else self.drafts.num_kept(transfer[self.tokens])
            result.drawn_logprobs = None if self.logprobs is None else transfer[self.logprobs].tolist()
            result.failures = self.failures
        self.readings.report(transfer, result)
        if self.beams is not None:
            self.beams.report(transfer, result)
        return result


@dataclass(frozen=True)
class DrawnTokens:
    """Sampled tokens in flight to the host, of requests without readings."""

    transfer: Transfer
    drafts: DraftRows | None = None

    def done(self) -> bool:
        return self.transfer.has_arrived

    def result(self) -> StepResult:
        self.transfer.fetch()
        tokens = self.transfer[0]
        return StepResult(tokens.tolist(), {} if self.drafts is None else self.drafts.num_kept(tokens))


class Sampler:
    """Samples the tokens of steps. Keeps the logit edits of rows; their other state is in the row store."""

    def __init__(self, store: SampledRows, vocab_size: int, device: torch.device | None = None) -> None:
        self._store = store
        self.vocab_size = vocab_size
        self._edits = EditBatch(vocab_size, device or torch.device("cpu"))

    def set_up(self, plan: StepPlan) -> None:
        """Set up the edits of rows that the plan gave to requests, and free those of requests that left their rows."""
        if self._edits:
            self._edits.remove_left()
        for setup in plan.row_setups:
            self._edits.set_up(setup.request)

    def is_plain(self, plan: StepPlan) -> bool:
        """Return whether the plan's requests need only tokens sampled from their unedited logits."""
        edits = self._edits
        return all(
            request.row not in edits
            and request.params.logprobs is None
            and request.beam is None
            and not request.observes
            for request in plan.requests
        )

    def masks(self, plan: StepPlan) -> list[Mask]:
        """Return the grammars' masks for the rows that tokens are sampled from, in order.

        The masks follow the requests' committed tokens and drafts.
        """
        entries = [entry for entry, samples in enumerate(plan.samples) if samples]
        if not self._edits:
            return [None] * (len(entries) + plan.num_drafted_tokens)
        found: list[Mask] = []
        for entry in entries:
            found += self._edits.masks(plan.requests[entry].row, len(plan.drafts.get(entry, ())))
        return found

    def sample(self, plan: StepPlan, step: StepEntries, logits: Tensor, masks: list[Mask] | None = None) -> StepResult:
        """Sample the tokens of the sampling entries, write them to their rows, and wait for them."""
        return self.draw(plan, step, logits, masks).result()

    def draw(
        self,
        plan: StepPlan,
        step: StepEntries,
        logits: Tensor,
        masks: list[Mask] | None = None,
        observed: Mapping[int, Tensor] = MappingProxyType({}),
    ) -> Drawn:
        """Start to sample the tokens of the sampling entries and to write them to their rows.

        `masks` is the result of `masks(plan)`, which is called here if it is None. The logits may be changed.
        `observed` becomes part of the result, on the host.
        """
        # Rows of the head beyond the tokenizer's vocabulary are padding and must never be sampled.
        logits = logits[:, : self.vocab_size]
        readings, transfer = Readings(plan, step, logits), Transfer()
        seen = {entry: transfer.add(attention) for entry, attention in observed.items()}
        if not step.sample_entries:
            readings.read(None, transfer)
            transfer.start()
            return Drawn(transfer, readings, observed=seen)
        if step.sample_rows is not None:
            logits = logits[upload_numbers(step.sample_rows, logits.device)]
        drafts = step.drafts
        every = drafts is None and len(step.sample_entries) == len(step.rows)
        rows = step.rows if every else step.rows[step.sample_entries]
        failures: dict[int, str] = {}
        if self._edits:
            failures = self._edit(plan, step, rows, logits, self.masks(plan) if masks is None else masks)
        has_rules = any(plan.requests[entry].rules is not None for entry in step.sample_entries)
        drawn, logprobs = self._store.draw(rows, logits, has_rules, drafts)
        if self._edits:
            self._edits.count(rows.tolist(), drawn, drafts)
        tokens = transfer.add(drawn)
        drawn_logprobs = None if logprobs is None else transfer.add(logprobs)
        readings.read(drawn, transfer)
        beams = BeamReadings(plan, step, logits, transfer)
        transfer.start()
        return Drawn(transfer, readings, beams, tokens, drawn_logprobs, failures, seen, drafts)

    def _edit(
        self, plan: StepPlan, step: StepEntries, rows: np.ndarray, logits: Tensor, masks: list[Mask]
    ) -> dict[int, str]:
        """Apply the rows' edits and return the errors of failed rows by entry; the other entries continue.

        A draft ends before a row whose edits fail: the next step will show whether the request gets there.
        """
        drafts = step.drafts
        ahead = None if drafts is None else [drafts.ahead(plan, index) for index in range(len(rows))]
        edits, failures = self._edits.build(rows.tolist(), masks, ahead)
        if edits:
            ops.edit_logits(logits, edits)
        if drafts is not None:
            for index in [index for index in failures if drafts.offsets[index]]:
                drafts.end_before(index)
                del failures[index]
        return {step.sample_entries[index]: f"{type(error).__name__}: {error}" for index, error in failures.items()}
