"""Qwen3: Llama's blocks with a norm on each head's query and key. arXiv:2505.09388."""

from __future__ import annotations

from dataclasses import replace

from antiphon.errors import UnsupportedError
from antiphon.layers.decoder import DecoderConfig
from antiphon.models.base.decoder import DecoderModel
from antiphon.weights.checkpoint import Checkpoint


class Qwen3(DecoderModel):
    architectures = ("qwen3",)

    @classmethod
    def adapt_config(cls, config: DecoderConfig, checkpoint: Checkpoint) -> DecoderConfig:
        if checkpoint.metadata.get("use_sliding_window"):
            raise UnsupportedError("qwen3 with use_sliding_window is not supported")
        bias = bool(checkpoint.metadata.get("attention_bias"))
        return replace(config, qk_norm=True, qkv_bias=bias, out_bias=bias)
