"""Means over sequences, whose lengths the host never reads."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.kernels.rows.pooling import mean_rows

_COLUMNS, _ROWS = 128, 32


def segment_mean(x: Tensor, seq_start: Tensor) -> Tensor:
    """Return the mean of each sequence's rows, fp32 [sequences, width]; zeros for an empty sequence."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    width, sequences = x.shape[1], len(seq_start) - 1
    out = torch.empty(sequences, width, device=x.device)
    if sequences:
        mean_rows[(sequences, -(-width // _COLUMNS))](
            x, seq_start, out, x.stride(0), WIDTH=width, BLOCK=_COLUMNS, ROWS=_ROWS
        )
    return out
