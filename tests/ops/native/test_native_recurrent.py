"""Native LSTM layers: rows and threads change nothing."""

from __future__ import annotations

import pytest
import torch

from antiphon import ops
from antiphon.ops.native import recurrent
from antiphon.ops.native.extension import available


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@pytest.mark.skipif(not available(), reason="without native kernels")
def test_recurrence_by_rows_and_threads(generator: torch.Generator) -> None:
    def weights() -> ops.LSTMWeights:
        shapes = ((64, 20), (64, 16), (64,), (64,))
        return ops.LSTMWeights(*(torch.randn(*shape, generator=generator) * 0.4 for shape in shapes))

    forward, backward = weights(), weights()
    x, lengths = torch.randn(3, 12, 20, generator=generator), torch.tensor([12, 1, 7])
    with ops.use_backend("reference"):
        expected = ops.lstm(x, lengths, forward, backward)
    for threads in (1, 2):
        got = recurrent.lstm(x, lengths, forward, backward, threads=threads)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        assert torch.equal(got[2:, :7], recurrent.lstm(x[2:, :7], lengths[2:], forward, backward))
