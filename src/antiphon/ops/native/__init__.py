"""The C++ backend for CPUs. Operations that it does not implement fall back to the reference."""

from __future__ import annotations

from antiphon.ops.native.adapters import adapted_linear
from antiphon.ops.native.attention import attention, paged_attention, store_kv, stores_pages
from antiphon.ops.native.convolution import conv1d, conv_transpose1d, prepare_convolution
from antiphon.ops.native.extension import available, variants
from antiphon.ops.native.half import half_conv1d, half_conv_transpose1d, half_type
from antiphon.ops.native.logits import count_tokens, edit_logits
from antiphon.ops.native.packing import prepare_weights
from antiphon.ops.native.product import embed, linear, matmul, supports, supports_type, take_rows
from antiphon.ops.native.recurrent import lstm
from antiphon.ops.native.rows import l2_normalize, layer_norm, rms_norm, rotary, segment_mean
from antiphon.ops.native.sampling import sample

__all__ = [
    "adapted_linear", "attention", "available", "conv1d", "conv_transpose1d", "count_tokens", "edit_logits", "embed",
    "half_conv1d", "half_conv_transpose1d", "half_type", "l2_normalize", "layer_norm", "linear", "lstm", "matmul",
    "paged_attention", "prepare_convolution", "prepare_weights",
    "rms_norm", "rotary", "sample", "segment_mean", "store_kv", "stores_pages", "supports", "supports_type",
    "take_rows", "variants",
]  # fmt: skip
