"""Readings of logits beside the sampled tokens: log-probabilities, the likeliest tokens, ranks, probes.

All rows of a step are read together, and the values stay on the device until one transfer copies them to the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.step_batch import StepEntries
from antiphon.executor.upload import upload_numbers

Pairs = list[tuple[int, float]]


@dataclass(frozen=True)
class Wanted:
    """Rows of the unedited logits to read: first for probes, then for prompts, then for sampled tokens."""

    probes: list[int] = field(default_factory=list)  # entries
    prompts: list[tuple[int, int]] = field(default_factory=list)  # (entry, number of its tokens to read)
    drawn: list[int] = field(default_factory=list)  # indices in the sampling entries
    rows: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)  # tokens of probes and prompts; sampled tokens are appended later
    num_top: int = 0  # maximum number of likeliest tokens that a row needs
    has_ranks: bool = False


def wanted(plan: StepPlan, step: StepEntries) -> Wanted:
    """Collect the rows of unedited logits that the requests of a step read."""
    found = Wanted()
    tops, has_ranks = [0], False
    for entry, row in step.probe_rows.items():
        probe = plan.requests[entry].probe
        assert probe is not None
        found.probes.append(entry)
        found.rows.append(row)
        found.tokens.append(probe[1])
    for entry, (first, last) in step.prompt_rows.items():
        request, start = plan.requests[entry], plan.starts[entry]
        predicted = request.prompt[start + 1 : start + 1 + last - first]
        found.prompts.append((entry, len(predicted)))
        found.rows.extend(range(first, first + len(predicted)))
        found.tokens.extend(predicted)
        has_ranks |= request.params.prompt_top_logprobs is not None
        tops.append(num_prompt_top(plan, entry) if predicted else 0)
    for index, entry in enumerate(step.sample_entries):
        count = plan.requests[entry].params.logprobs
        if count is not None:
            found.drawn.append(index)
            found.rows.append(index if step.sample_rows is None else step.sample_rows[index])
            tops.append(count)
    return Wanted(found.probes, found.prompts, found.drawn, found.rows, found.tokens, max(tops), has_ranks)


def num_prompt_top(plan: StepPlan, entry: int) -> int:
    params = plan.requests[entry].params
    count = params.logprobs if params.prompt_top_logprobs is None else params.prompt_top_logprobs
    return count or 0


class Readings:
    """Readings of one step's unedited logits, from before the edits until their values are on the host."""

    def __init__(self, plan: StepPlan, step: StepEntries, logits: Tensor) -> None:
        self._plan = plan
        self._step = step
        self._wanted = wanted(plan, step)
        rows = self._wanted.rows
        if not rows:
            return
        self._at = upload_numbers(rows, logits.device)
        if 2 * len(rows) < len(logits):
            logits, self._at = logits[self._at], torch.arange(len(rows), device=logits.device)
        self._logprobs = logits.float().log_softmax(-1)

    def read(self, drawn: Tensor | None, transfer: Transfer) -> None:
        """Read the values of all tokens; `drawn` are the sampled tokens of the sampling entries, if any."""
        wanted = self._wanted
        if not wanted.rows:
            return
        at = self._at
        tokens = upload_numbers(wanted.tokens, at.device)
        if wanted.drawn:
            assert drawn is not None
            tokens = torch.cat([tokens, drawn[upload_numbers(wanted.drawn, at.device)].long()])
        picked = self._logprobs[at, tokens]
        self._values = transfer.add(picked)
        if wanted.has_ranks:
            own = torch.zeros_like(self._logprobs[:, 0]).index_copy_(0, at, picked)  # rows are distinct
            self._ranks = transfer.add((self._logprobs >= own[:, None]).sum(-1)[at])
        if wanted.num_top:
            values, ids = self._logprobs.topk(min(wanted.num_top, self._logprobs.shape[1]))
            self._top_values, self._top_ids = transfer.add(values[at]), transfer.add(ids[at])

    def _pairs(self, transfer: Transfer, first: int, last: int, count: int) -> list[Pairs]:
        ids, values = (transfer[number][first:last, :count].tolist() for number in (self._top_ids, self._top_values))
        return [list(zip(*pair, strict=True)) for pair in zip(ids, values, strict=True)]

    def report(self, transfer: Transfer, result: StepResult) -> None:
        """Store the transferred values in the result."""
        wanted, plan = self._wanted, self._plan
        if not wanted.rows:
            return
        values: NDArray[np.float32] = transfer[self._values]
        for index, entry in enumerate(wanted.probes):
            result.probed[entry] = float(np.exp(values[index]))
        first = len(wanted.probes)
        for entry, count in wanted.prompts:
            last = first + count
            result.prompt_logprobs[entry] = values[first:last].tolist()
            if plan.requests[entry].params.prompt_top_logprobs is not None:
                result.prompt_ranks[entry] = transfer[self._ranks][first:last].tolist()
            listener = plan.requests[entry].on_distributions
            if listener is not None and count:
                listener(plan.starts[entry], self._logprobs[self._at[first:last]])
            if num_prompt_top(plan, entry):
                result.prompt_top_logprobs[entry] = self._pairs(transfer, first, last, num_prompt_top(plan, entry))
            first = last
        if wanted.drawn:
            self._report_drawn(transfer, result, first)

    def _report_drawn(self, transfer: Transfer, result: StepResult, first: int) -> None:
        result.logprobs = [0.0] * len(result.tokens)
        result.top_logprobs = [None] * len(result.tokens)
        values = transfer[self._values][first:].tolist()
        for number, index in enumerate(self._wanted.drawn):
            result.logprobs[index] = values[number]
            count = self._plan.requests[self._step.sample_entries[index]].params.logprobs
            if count:
                result.top_logprobs[index] = self._pairs(transfer, first + number, first + number + 1, count)[0]


class BeamReadings:
    """Likeliest tokens of a beam search's hypotheses: one more than the beams, since one may be an end token."""

    def __init__(self, plan: StepPlan, step: StepEntries, logits: Tensor, transfer: Transfer) -> None:
        widths = {
            index: beam.width + 1
            for index, entry in enumerate(step.sample_entries)
            if (beam := plan.requests[entry].beam) is not None
        }
        self._widths = {step.sample_entries[index]: width for index, width in widths.items()}
        if not widths:
            return
        if len(widths) < len(logits):
            logits = logits[upload_numbers(list(widths), logits.device)]
        values, ids = logits.float().log_softmax(-1).topk(max(widths.values()))
        self._values, self._ids = transfer.add(values), transfer.add(ids)

    def report(self, transfer: Transfer, result: StepResult) -> None:
        for index, (entry, width) in enumerate(self._widths.items()):
            ids, values = transfer[self._ids][index, :width].tolist(), transfer[self._values][index, :width].tolist()
            result.candidates[entry] = list(zip(ids, values, strict=True))
