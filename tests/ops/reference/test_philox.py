"""Philox against the known answers published with the Random123 library (`kat_vectors`, philox 4x32 10)."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops.reference.philox import philox, uniform

VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]) -> None:
    words = philox(tuple(torch.tensor([c]) for c in counter), tuple(torch.tensor([k]) for k in key))
    assert tuple(int(word) for word in words) == expected


def test_uniform_is_a_function_of_seed_index_and_column() -> None:
    a = uniform(torch.tensor([7, 7, 8]), torch.tensor([0, 1, 0]), 101)
    b = uniform(torch.tensor([8, 7]), torch.tensor([0, 1]), 50)
    assert torch.equal(a[2, :50], b[0]) and torch.equal(a[1, :50], b[1])
    assert len({float(x) for x in a.flatten()}) > 290
    assert bool((a > 0).all()) and bool((a < 1).all())


def test_uniform_never_rounds_to_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gumbel noise of 0 or 1 would be infinite, and its token drawn whatever the logits say."""
    for word in (0, 0xFFFFFFFF):
        monkeypatch.setattr(
            "antiphon.ops.reference.philox.philox", lambda *_, word=word: [torch.full((1, 2), word)] * 4
        )
        numbers = uniform(torch.tensor([0]), torch.tensor([0]), 8)
        assert bool((-torch.log(-torch.log(numbers))).isfinite().all())
