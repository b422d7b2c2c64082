"""All rows' edits at once equal the edits of each request alone, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from antiphon import ops
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from antiphon.executor.sampling.edit_batch import EditBatch
from support.kernels.edits_by_row import edit_row

VOCAB = 203  # not a multiple of a byte's or a vector's length
FIRST, END = 150, 140
CPU = torch.device("cpu")


@pytest.fixture(params=ops.available_backends(), autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with ops.use_backend(request.param):
        yield


class Grammar:
    """Allows what its bits say, whatever was drawn."""

    def __init__(self, bits: Any) -> None:
        self.bits = bits
        self.asked = 0

    def advance(self, token: int) -> None: ...

    def mask(self) -> Any:
        self.asked += 1
        if isinstance(self.bits, Exception):
            raise self.bits
        return self.bits


def random_mask(source: np.random.Generator) -> Any:
    """Shorter or longer than the vocabulary, of any integer type; some token is always allowed."""
    words = source.integers(-(2**31), 2**31, int(source.integers(4, 9))).astype(np.int32)
    words[0] |= 16
    return words.view(source.choice(["int32", "uint8", "int64"])) if len(words) % 2 == 0 else words


def random_rules(source: np.random.Generator) -> TranscriptRules:
    opening = ((3, 9), (7,))[: int(source.integers(0, 3))]
    return TranscriptRules(
        begin=3 + len(opening), end_id=END, opening=opening, blank=frozenset({5, END}),
        first_timestamp=None if source.random() < 0.3 else FIRST, max_initial=None if source.random() < 0.3 else 20,
    )  # fmt: skip


def random_request(row: int, source: np.random.Generator) -> Request:
    """A request that has each kind of edit with some probability, and often none."""

    def tokens(count: int) -> list[int]:
        return [int(token) for token in source.integers(0, VOCAB, count)]

    def maybe(value: Any, other: Any, share: float = 0.4) -> Any:
        return value if source.random() < share else other

    params = SamplingParams(
        temperature=maybe(0.8, 0.0), typical_p=maybe(0.7, 1.0), repetition_penalty=maybe(1.3, 1.0),
        presence_penalty=maybe(0.4, 0.0), frequency_penalty=maybe(-0.2, 0.0),
        logit_bias=maybe({token: float(token % 9 - 4) for token in tokens(6)}, {}),
        allowed_tokens=maybe(frozenset({4, *tokens(80)}), None, 0.2),
        banned_tokens=maybe(frozenset(tokens(9)), frozenset()),
        min_tokens=maybe(4, 0),
    )  # fmt: skip
    request = Request(f"r{row}", "m", tokens(int(source.integers(3, 9))), params, stop_ids=frozenset(tokens(2)))
    request.rules = maybe(random_rules(source), None, 0.3)
    request.constraint = maybe(Grammar(random_mask(source)), None, 0.3)
    if request.rules is not None:
        request.prompt = request.prompt[:3]
        request.tokens = list(request.prompt)
    request.tokens += tokens(int(source.integers(0, 6)))
    request.row = row
    return request


def batch_of(requests: list[Request]) -> EditBatch:
    batch = EditBatch(VOCAB, CPU)
    for request in requests:
        batch.set_up(request)
    return batch


def edited(batch: EditBatch, requests: list[Request], logits: torch.Tensor) -> dict[int, Exception]:
    rows = [request.row for request in requests]
    edits, failures = batch.build(rows, [batch.masks(row)[0] for row in rows])
    ops.edit_logits(logits, edits)
    return failures


@pytest.mark.parametrize("seed", range(12))
def test_steps_of_random_requests(seed: int) -> None:
    source = np.random.default_rng(seed)
    requests = [random_request(row, source) for row in range(int(source.integers(1, 12)))]
    batch = batch_of(requests)
    for _ in range(6):
        # A view with a stride, as the logits of a head with padding are.
        whole = torch.from_numpy(source.standard_normal((len(requests), VOCAB + 5)) * 3).float()
        expected = whole[:, :VOCAB].clone()
        for row, request in zip(expected, requests, strict=True):
            edit_row(row, request)
        padding = whole[:, VOCAB:].clone()
        assert not edited(batch, requests, whole[:, :VOCAB])
        torch.testing.assert_close(whole[:, :VOCAB], expected, rtol=2e-6, atol=2e-6)
        assert torch.equal(whole[:, VOCAB:], padding)
        drawn = torch.from_numpy(source.integers(0, VOCAB, len(requests)))
        batch.count([request.row for request in requests], drawn)
        for request, token in zip(requests, drawn.tolist(), strict=True):
            request.tokens.append(token)
        # Other rows join, leave and change their order.
        source.shuffle(requests)  # type: ignore[arg-type]
        requests[-1] = random_request(requests[-1].row, source)
        batch.set_up(requests[-1])


def test_edits_do_not_depend_on_the_batch() -> None:
    """Bit for bit, with the reductions of typical sampling and timestamps over a vocabulary of real size."""
    size, rows = 51_865, 5
    logits = torch.randn(rows, size, generator=torch.Generator().manual_seed(0)) * 2
    spans = torch.tensor([[0, size, 50_362, 50_400, 50_363]] * rows, dtype=torch.int32)
    typical = torch.tensor([[0.9, 0.7]] * rows)
    together = logits.clone()
    ops.edit_logits(together, ops.LogitEditRows(spans=spans, typical=typical))
    for row in range(rows):
        alone = logits[row : row + 1].clone()
        ops.edit_logits(alone, ops.LogitEditRows(spans=spans[:1], typical=typical[:1]))
        assert torch.equal(alone[0], together[row])


def test_a_grammar_that_fails_fails_its_row_only() -> None:
    source = np.random.default_rng(3)
    requests = [random_request(row, source) for row in range(5)]
    for request in requests:
        request.rules = None
    requests[2].constraint = Grammar(RuntimeError("no such state"))
    requests[3].params = replace(requests[3].params, logit_bias={VOCAB: 1.0}, allowed_tokens=None)
    requests[3].constraint = None
    logits = torch.randn(5, VOCAB)
    expected = logits.clone()
    for row in (0, 1, 4):
        edit_row(expected[row], requests[row])
    failures = edited(batch_of(requests), requests, logits)
    assert {index: str(error) for index, error in failures.items()} == {
        2: "no such state",
        3: f"token {VOCAB} is outside the vocabulary of {VOCAB} tokens",
    }
    torch.testing.assert_close(logits, expected, rtol=2e-6, atol=2e-6)


def test_an_ended_request_does_not_ask_its_grammar() -> None:
    grammar = Grammar(np.array([3], np.int32))
    request = Request("r", "m", [1], SamplingParams(logit_bias={3: 1.0}), constraint=grammar)
    request.row = 0
    batch = batch_of([request])
    assert batch.masks(0)[0] is not None and grammar.asked == 1
    request.finish_reason = FinishReason.CANCELLED
    assert batch.masks(0)[0] is None and grammar.asked == 1
    edits, failures = batch.build([0], [None])
    assert not edits and not failures


def test_unchanged_edits_are_built_once() -> None:
    request = Request("r", "m", [1], SamplingParams(logit_bias={3: 1.0}, frequency_penalty=0.5))
    request.row = 0
    batch = batch_of([request])
    first, _ = batch.build([0], [None])
    again, _ = batch.build([0], [None])
    assert first.bias is not None and first.bias is again.bias
    assert first.penalties is not None and again.penalties is not None
    assert first.penalties.values is again.penalties.values


def test_counts_grow_and_slots_are_used_again() -> None:
    """Rows come and go; each counts its own tokens, beyond what the table had room for at first."""
    params = SamplingParams(repetition_penalty=1.2, frequency_penalty=0.1)
    source = np.random.default_rng(1)
    requests = []
    for row in range(7):
        request = Request(f"r{row}", "m", source.integers(0, VOCAB, 150).tolist(), params)
        request.row = row
        requests.append(request)
    batch = batch_of(requests)
    for step in range(400):
        drawn = torch.from_numpy(source.integers(0, VOCAB, len(requests)))
        batch.count([request.row for request in requests], drawn)
        for request, token in zip(requests, drawn.tolist(), strict=True):
            request.tokens.append(token)
        if step % 50 == 49:
            requests[step % 7].row = -1
            batch.remove_left()
            requests[step % 7] = Request("new", "m", [1, 2], params)
            requests[step % 7].row = step % 7
            batch.set_up(requests[step % 7])
    logits = torch.randn(7, VOCAB)
    expected = logits.clone()
    for row, request in zip(expected, requests, strict=True):
        edit_row(row, request)
    edited(batch, requests, logits)
    torch.testing.assert_close(logits, expected, rtol=2e-6, atol=2e-6)
