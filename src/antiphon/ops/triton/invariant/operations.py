"""Operations of batch-invariant mode, by name; they override those of `antiphon.ops.triton.operations`."""

from __future__ import annotations

from functools import partial

from antiphon.ops.triton import rows
from antiphon.ops.triton.invariant.attention import paged_attention
from antiphon.ops.triton.invariant.product import adapted_linear, linear

#: Norms with one row per program, whatever the number of rows.
rms_norm, layer_norm = partial(rows.rms_norm, together=1), partial(rows.layer_norm, together=1)

__all__ = ["adapted_linear", "layer_norm", "linear", "paged_attention", "rms_norm"]
