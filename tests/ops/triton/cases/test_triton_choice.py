"""Tokens that the kernels draw, with and without top-k, top-p and min-p, are the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from antiphon.ops import SamplingRows
from antiphon.ops.reference import sampling as reference
from antiphon.ops.triton.program import choice
from antiphon.ops.triton.program.choice import ChoiceColumns, choice_launches

ON_CARD = torch.cuda.is_available()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of a row, and several chunks of listed groups."""
    monkeypatch.setattr(choice, "BLOCK", 256)
    monkeypatch.setattr(choice, "plain_block", lambda rows: 256)
    monkeypatch.setattr(choice, "CHUNK", 4)


def draw(logits: Tensor, columns: ChoiceColumns, rows: Tensor, filtered: bool = True) -> Tensor:
    """The tokens of rows whose parameters are at `rows` of the columns; -7 for padding."""
    device, drawn = logits.device, torch.full((len(logits),), -7, dtype=torch.int32, device=logits.device)

    def take(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return torch.full(tuple(shape), torch.nan if dtype.is_floating_point else -1, dtype=dtype, device=device)

    for launch in choice_launches(
        logits, len(rows), logits.shape[1], columns, rows.to(device), drawn, take, filtered, early=False
    ):
        launch()
    return drawn.cpu()


def parameters(columns: ChoiceColumns, rows: Tensor) -> SamplingRows:
    """The parameters of these rows, on the host."""
    return SamplingRows(*(getattr(columns, part.name).cpu()[rows.long()] for part in fields(SamplingRows)))


def some_columns(count: int, generator: torch.Generator, device: torch.device) -> ChoiceColumns:
    def some(value: Tensor, other: float) -> Tensor:
        return torch.where(torch.rand(count, generator=generator) < 0.6, value, torch.full_like(value, other))

    temperature = 0.2 + 1.4 * torch.rand(count, generator=generator)
    temperature[2] = 0
    columns = (
        temperature, some(torch.randint(1, 60, (count,), generator=generator).int(), 0),
        some(torch.rand(count, generator=generator), 1), some(torch.rand(count, generator=generator) * 0.3, 0),
        torch.randint(-(2**62), 2**62, (count,), generator=generator),
        torch.randint(0, 2**40, (count,), generator=generator),
        torch.arange(count, dtype=torch.int32), torch.arange(count, dtype=torch.int32),
    )  # fmt: skip
    return ChoiceColumns(*(column.to(device) for column in columns))


def some_logits(count: int, vocabulary: int, kind: str, generator: torch.Generator) -> Tensor:
    """Rows of more columns than the vocabulary has."""
    logits = torch.randn(count, vocabulary + 16, generator=generator) * {"flat": 0.01, "steep": 6}.get(kind, 2)
    if kind == "ties":
        logits = (2 * logits).round() / 2
    if kind == "masked":
        logits[torch.rand(logits.shape, generator=generator) < 0.95] = -torch.inf
        logits[:, 1] = 0
    return logits


@pytest.mark.parametrize(
    ("vocabulary", "kind"), [(3, "normal"), (500, "flat"), (500, "ties"), (700, "masked"), (1500, "steep")]
)
@pytest.mark.parametrize("filtered", [True, pytest.param(False, marks=() if ON_CARD else pytest.mark.slow)])
def test_tokens_are_the_reference_s(vocabulary: int, kind: str, filtered: bool, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    count = 6
    columns = some_columns(count, generator, device)
    logits = some_logits(count, vocabulary, kind, generator)
    rows = torch.randperm(count, generator=generator).int()
    rows[4] = -1
    used = rows >= 0
    own, index = parameters(columns, rows[used]), columns.index.clone()
    if not filtered:  # the kernels do not read what limits the choice
        ones = torch.ones_like(own.top_p)
        own = replace(own, top_k=0 * own.top_k, top_p=ones, min_p=0 * ones)
    expected, _ = reference.sample(logits[used, :vocabulary], own, logprobs=False)
    drawn = draw(logits.to(device)[:, :vocabulary], columns, rows, filtered)
    assert drawn[used].tolist() == expected.tolist() and drawn[4] == -7
    grown = torch.zeros(count, dtype=torch.int64).index_fill_(0, rows[used].long(), 1)
    assert torch.equal((columns.index - index).cpu(), grown)
    assert torch.equal(columns.length.cpu(), torch.arange(count) + grown)
    assert torch.equal(columns.last_token.cpu()[rows[used].long()], drawn[used])


def test_rows_without_a_number_end_and_leave_the_others_alone(device: torch.device) -> None:
    """NaN counts as -inf: such rows get a token of the vocabulary, and the other rows the tokens they have alone."""
    generator = torch.Generator().manual_seed(3)
    count, vocabulary = 8, 500
    filters = torch.tensor([[0, 1, 0], [20, 1, 0], [0, 0.7, 0], [0, 1, 0.1], [20, 0.7, 0.1], [20, 0.7, 0], [9, 1, 0]])
    filters = torch.cat([filters, filters[4:5]])
    top_k, top_p, min_p = filters.T.contiguous()
    heat = torch.tensor([1.0] * 7 + [0.0])
    logits = 2 * torch.randn(3 * count, vocabulary, generator=generator)
    logits[::3], logits[1::3] = torch.nan, -torch.inf
    logits[2, ::7] = torch.nan
    numbered = logits.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    zeros = torch.zeros(3 * count, dtype=torch.int32)
    repeated = (column.repeat_interleave(3) for column in (heat, top_k.int(), top_p, min_p))
    made = (*repeated, torch.arange(3 * count), zeros.long(), zeros, zeros.clone())
    columns = ChoiceColumns(*(column.to(device) for column in made))
    own = parameters(columns, torch.arange(2, 3 * count, 3))
    expected, _ = reference.sample(numbered[2::3], own, logprobs=False)
    drawn = draw(logits.to(device), columns, torch.arange(3 * count).int())
    assert drawn[2::3].tolist() == expected.tolist()
    assert drawn[::3].tolist() == drawn[1::3].tolist() == [0] * count


def test_one_token_of_many_equal_ones(device: torch.device) -> None:
    """top-k 1 among equal logits is the first of them, however often the noise favours others."""
    ones, whole = torch.ones(2, device=device), torch.zeros(2, dtype=torch.int32, device=device)
    seed, index = torch.arange(2, device=device), torch.zeros(2, dtype=torch.int64, device=device)
    columns = ChoiceColumns(ones, whole + 1, ones, 0 * ones, seed, index, whole, whole.clone())
    drawn = draw(torch.zeros(2, 600, device=device), columns, torch.arange(2).int())
    assert drawn.tolist() == [0, 0]
