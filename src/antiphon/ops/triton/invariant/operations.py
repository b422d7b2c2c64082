"""The operations of batch-invariant mode, by name; they come before those of `antiphon.ops.triton.operations`."""

from __future__ import annotations

from antiphon.ops.triton.invariant.attention import paged_attention
from antiphon.ops.triton.invariant.product import adapted_linear, linear
from antiphon.ops.triton.invariant.rows import layer_norm, rms_norm

__all__ = ["adapted_linear", "layer_norm", "linear", "paged_attention", "rms_norm"]
