"""Tokens drawn by the Triton kernels under top-k, top-p and min-p are the reference's.

The cases run under Triton's interpreter, in a process of their own that is started with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor

from antiphon.ops import SamplingRows
from antiphon.ops.reference import sampling as reference

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="Triton's interpreter is not in use")
BLOCK, CHUNK = 256, 4


@pytest.mark.skipif(INTERPRETED or find_spec("triton") is None, reason="Triton is not installed")
def test_under_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", __file__]
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-8000:] + done.stderr[-2000:]


def draw(logits: Tensor, columns: SamplingRows, rows: Tensor, store: dict[str, Tensor]) -> Tensor:
    """The tokens of places whose parameters are at `rows` of the columns; -7 where a place is padding."""
    from antiphon.ops.triton.kernels.sampling.filtered_choice import GROUP, choose_filtered, survey_blocks

    (count, vocabulary), group = logits.shape, int(GROUP.value)
    blocks = -(-vocabulary // BLOCK)
    groups = blocks * BLOCK // group
    power = 1 << (groups - 1).bit_length()
    best, tops, sums = (torch.full((count, blocks), torch.nan) for _ in range(3))
    tokens = torch.full((count, blocks), -1, dtype=torch.int32)
    maxima, listed = torch.full((count, groups), torch.nan), torch.full((count, power), -1, dtype=torch.int32)
    drawn = torch.full((count,), -7, dtype=torch.int32)
    survey_blocks[(blocks, count)](
        logits, columns.temperature, columns.seed, columns.index, rows, best, tokens, tops, sums, maxima,
        logits.stride(0), 1, 1, vocabulary, blocks, BLOCK=BLOCK, PDL=False,
    )  # fmt: skip
    choose_filtered[(count,)](
        logits, columns.temperature, columns.top_k, columns.top_p, columns.min_p, columns.seed, columns.index, rows,
        best, tokens, tops, sums, maxima, listed, store["last_token"], store["length"], drawn,
        logits.stride(0), 1, 1, vocabulary, blocks, groups,
        BLOCKS=1 << (blocks - 1).bit_length(), GROUPS=power, CHUNK=CHUNK, PDL=False,
    )  # fmt: skip
    return drawn


def some_columns(count: int, generator: torch.Generator) -> SamplingRows:
    def some(value: Tensor, other: float) -> Tensor:
        return torch.where(torch.rand(count, generator=generator) < 0.6, value, torch.full_like(value, other))

    temperature = 0.2 + 1.4 * torch.rand(count, generator=generator)
    temperature[2] = 0
    return SamplingRows(
        temperature, some(torch.randint(1, 60, (count,), generator=generator).int(), 0),
        some(torch.rand(count, generator=generator), 1), some(torch.rand(count, generator=generator) * 0.3, 0),
        torch.randint(-(2**62), 2**62, (count,), generator=generator),
        torch.randint(0, 2**40, (count,), generator=generator),
    )  # fmt: skip


@interpreted
@pytest.mark.parametrize(
    ("vocabulary", "kind"), [(3, "plain"), (500, "flat"), (500, "ties"), (700, "masked"), (1500, "steep")]
)
def test_tokens_are_the_reference_s(vocabulary: int, kind: str) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    count = 6
    columns = some_columns(count, generator)
    logits = torch.randn(count, vocabulary + 16, generator=generator) * {"flat": 0.01, "steep": 6}.get(kind, 2)
    if kind == "ties":
        logits = (2 * logits).round() / 2
    if kind == "masked":
        logits[torch.rand(logits.shape, generator=generator) < 0.95] = -torch.inf
        logits[:, 1] = 0
    logits = logits[:, :vocabulary]
    rows = torch.randperm(count, generator=generator).int()
    rows[4] = -1
    used = rows >= 0
    own = SamplingRows(*(getattr(columns, name)[rows[used].long()] for name in SamplingRows.__dataclass_fields__))
    expected, _ = reference.sample(logits[used], own, logprobs=False)
    store = {name: torch.arange(count, dtype=torch.int32) for name in ("last_token", "length")}
    index = columns.index.clone()
    drawn = draw(logits, columns, rows, store)
    assert drawn[used].tolist() == expected.tolist() and drawn[4] == -7
    grown = torch.zeros(count, dtype=torch.int64).index_fill_(0, rows[used].long(), 1)
    assert torch.equal(columns.index - index, grown)
    assert torch.equal(store["length"], torch.arange(count) + grown)
    assert torch.equal(store["last_token"][rows[used].long()], drawn[used])


@interpreted
def test_rows_without_a_number_end_and_leave_the_others_alone() -> None:
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
    columns = SamplingRows(
        *(column.repeat_interleave(3) for column in (heat, top_k.int(), top_p, min_p)),
        torch.arange(3 * count), torch.zeros(3 * count).long(),
    )  # fmt: skip
    own = SamplingRows(*(getattr(columns, name)[2::3].clone() for name in SamplingRows.__dataclass_fields__))
    expected, _ = reference.sample(numbered[2::3], own, logprobs=False)
    store = {name: torch.zeros(3 * count, dtype=torch.int32) for name in ("last_token", "length")}
    drawn = draw(logits, columns, torch.arange(3 * count).int(), store)
    assert drawn[2::3].tolist() == expected.tolist()
    assert drawn[::3].tolist() == drawn[1::3].tolist() == [0] * count


@interpreted
def test_one_token_of_many_equal_ones() -> None:
    """top-k 1 among equal logits is the first of them, however often the noise favours others."""
    zeros, count = torch.zeros(2), 2
    columns = SamplingRows(zeros + 1, zeros.int() + 1, zeros + 1, zeros, torch.arange(2), torch.zeros(2).long())
    store = {name: torch.zeros(count, dtype=torch.int32) for name in ("last_token", "length")}
    drawn = draw(torch.zeros(count, 600), columns, torch.arange(2).int(), store)
    assert drawn.tolist() == [0, 0]
