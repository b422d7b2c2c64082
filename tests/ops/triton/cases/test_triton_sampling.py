"""Tokens are those of the reference, for the same logits."""

from __future__ import annotations

import torch

from antiphon import ops
from antiphon.ops import SamplingRows
from support.kernels.triton_cases import error, normal


def test_tokens_of_the_reference(generator: torch.Generator, device: torch.device) -> None:
    for vocabulary in (5, 1500):
        logits = (2 * normal(generator, 4, vocabulary)).to(device)
        temperature = torch.rand(4, generator=generator)
        temperature[1] = 0
        seed = torch.randint(-(2**62), 2**62, (4,), generator=generator)
        index = torch.randint(0, 2**40, (4,), generator=generator)
        ones = torch.ones(4)
        for top_k in (0, 3):
            columns = (temperature, torch.full((4,), top_k).int(), ones, 0 * ones, seed, index)
            rows = SamplingRows(*(column.to(device) for column in columns))
            results = []
            for backend in ("triton", "reference"):
                with ops.use_backend(backend):
                    results.append(ops.sample(logits, rows))
            assert torch.equal(results[0][0], results[1][0])
            assert error(results[0][1], results[1][1]) < 1e-5
        assert torch.equal(rows.index.cpu(), index)  # the caller's rows stay as they are
