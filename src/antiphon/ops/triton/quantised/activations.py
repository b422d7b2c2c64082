"""A row of activations, packed for the products of one row (`kernels/quantised/activations`)."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.kernels.quantised.activations import pack_row
from antiphon.ops.triton.quantised.forms import BLOCK, GROUP

#: Words of a packed block: its bytes, its scale and its sums.
_BLOCK_WORDS = 8 + 8 + 1 + 2 + 1
WARPS = 2


def packed_words(columns: int) -> int:
    """The 32-bit words of a packed row."""
    return num_groups(columns) * GROUP * _BLOCK_WORDS


def num_groups(columns: int) -> int:
    """Programs that pack a row."""
    return -(-columns // (BLOCK * GROUP))


def packed(x: Tensor, gain: Tensor | None, pdl: bool) -> Tensor:
    """x [1, K], times `gain` if there is one, packed."""
    out = torch.empty(packed_words(x.shape[1]), dtype=torch.int32, device=x.device)
    options: dict[str, int | bool] = {"num_warps": WARPS}
    if pdl:
        options["launch_pdl"] = True
    pack_row[(num_groups(x.shape[1]),)](
        x, x if gain is None else gain, out, out.view(torch.int8), K=x.shape[1], NORM=gain is not None, PDL=pdl,
        **options,
    )  # fmt: skip
    return out
