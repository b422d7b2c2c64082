"""Qwen2 and Qwen2.5: Llama's blocks with biases on queries, keys and values. arXiv:2407.10671."""

from __future__ import annotations

from dataclasses import replace

from antiphon.errors import UnsupportedError
from antiphon.layers.decoder import DecoderConfig
from antiphon.models.base.decoder import DecoderModel
from antiphon.weights.checkpoint import Checkpoint


class Qwen2(DecoderModel):
    architectures = ("qwen2",)

    @classmethod
    def adapt_config(cls, config: DecoderConfig, checkpoint: Checkpoint) -> DecoderConfig:
        if checkpoint.metadata.get("use_sliding_window"):
            raise UnsupportedError("qwen2 with use_sliding_window is not supported")
        return replace(config, qkv_bias=True)
