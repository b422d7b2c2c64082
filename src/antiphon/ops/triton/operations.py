"""Implementations of the backend's operations, by name."""

from __future__ import annotations

from antiphon.ops.triton.attention import attention, paged_attention, paged_attention_weights, store_kv
from antiphon.ops.triton.embedding import embed, gather_rows
from antiphon.ops.triton.logits import count_tokens, edit_logits
from antiphon.ops.triton.pooling import segment_mean
from antiphon.ops.triton.product import adapted_linear, linear
from antiphon.ops.triton.recurrent import lstm
from antiphon.ops.triton.rows import layer_norm, rms_norm, rotary, scatter_words
from antiphon.ops.triton.sampling import sample
from antiphon.ops.triton.sound.convolution import (
    conv1d,
    conv_transpose1d,
    half_conv1d,
    half_conv_transpose1d,
    half_type,
)
from antiphon.ops.triton.sound.frame_norm import adaptive_norm
from antiphon.ops.triton.sound.spectrum import harmonic_spectrum
from antiphon.ops.triton.weights import prepare_weights

__all__ = [
    "adapted_linear", "adaptive_norm", "attention", "conv1d", "conv_transpose1d", "count_tokens", "edit_logits",
    "embed", "gather_rows", "half_conv1d", "half_conv_transpose1d", "half_type", "harmonic_spectrum", "layer_norm",
    "linear", "lstm", "paged_attention", "paged_attention_weights", "prepare_weights", "rms_norm", "rotary", "sample",
    "scatter_words", "segment_mean", "store_kv",
]  # fmt: skip
