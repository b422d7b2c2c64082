"""Native logit edits are the reference's, whatever the instruction set and the number of threads."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops import LogitEditRows, Penalties, TokenCounts, TokenLists, TokenMasks, native
from antiphon.ops.native import logits as own
from antiphon.ops.reference import logits as reference

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")


def some_edits(rows: int, vocabulary: int, generator: torch.Generator) -> LogitEditRows:
    def lists(longest: int, valued: bool = False) -> TokenLists:
        lengths = torch.randint(0, longest, (rows,), generator=generator)
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()
        ids = torch.cat([torch.randperm(vocabulary, generator=generator)[:length] for length in lengths.tolist()]).int()
        return TokenLists(starts, ids, torch.randn(len(ids), generator=generator) if valued else None)

    def whole(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, generator=generator, dtype=torch.int32)

    spans = whole(vocabulary, rows, 5).sort(-1).values[:, [0, 4, 1, 2, 3]].contiguous()
    spans[::3, 4] = -1
    seen = torch.stack([torch.randperm(vocabulary, generator=generator)[:60] for _ in range(rows)]).int()
    counts = TokenCounts(seen, whole(3, rows, 60), whole(60, rows))
    values = torch.tensor([1.2, 0.3, 0.1]).expand(rows, 3).contiguous()
    masks = torch.randint(0, 256, (rows, -(-vocabulary // 8)), generator=generator, dtype=torch.uint8)
    return LogitEditRows(
        TokenMasks(masks, torch.randperm(rows, generator=generator).int() - 1), lists(vocabulary), lists(9), spans,
        lists(20, valued=True), Penalties(values, torch.randperm(rows, generator=generator).int() - 1, counts),
    )  # fmt: skip


@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("vocabulary", [61, 1000, 4099])
def test_edits_are_the_reference_s(vocabulary: int, threads: int, variant: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    edits = some_edits(9, vocabulary, generator)
    logits = torch.randn(9, vocabulary, generator=generator) * 3
    expected = logits.clone()
    reference.edit_logits(expected, edits)
    own.edit_logits(logits, edits, threads, variant)
    assert torch.equal(logits, expected)
    assert logits.isinf().any() and logits.isfinite().any()


def test_shapes_that_do_not_fit_are_errors() -> None:
    logits = torch.zeros(2, 50)
    with pytest.raises(ValueError, match="masks of 6 bytes for a vocabulary of 50"):
        own.edit_logits(logits, LogitEditRows(TokenMasks(torch.zeros(1, 6, dtype=torch.uint8), torch.zeros(2).int())))
    with pytest.raises(ValueError, match=r"expected \(2, 5\)"):
        own.edit_logits(logits, LogitEditRows(spans=torch.zeros(3, 5, dtype=torch.int32)))
    with pytest.raises(ValueError, match="int64"):
        own.edit_logits(logits, LogitEditRows(spans=torch.zeros(2, 5, dtype=torch.int64)))
