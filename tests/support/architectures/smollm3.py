"""SmolLM3: Llama's blocks, some of which have no rotary positions. arXiv:2305.19466."""

from __future__ import annotations

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.layers.decoder import DecoderConfig
from antiphon.models.llama import Llama
from antiphon.ops import RotaryTable
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import size
from antiphon.weights.source import Source

#: Default interval: every fourth layer has no rotary positions.
INTERVAL = 4


class SmolLM3(Llama):
    """Llama with rotary positions in some layers only; in the others, only the causal mask orders tokens."""

    architectures = ("smollm3",)

    def __init__(self, config: DecoderConfig, source: Source) -> None:
        super().__init__(config, source)
        metadata, layers = source.checkpoint.metadata, range(config.num_layers)
        stated = metadata.get("no_rope_layers")
        if stated is not None and (not isinstance(stated, list) or len(stated) < config.num_layers):
            raise CheckpointError(f"config key 'no_rope_layers' is not a list for {config.num_layers} layers")
        interval = size(metadata, "no_rope_layer_interval", INTERVAL)
        self.has_rotary = [(layer + 1) % interval != 0 if stated is None else bool(stated[layer]) for layer in layers]

    @classmethod
    def adapt_config(cls, config: DecoderConfig, checkpoint: Checkpoint) -> DecoderConfig:
        if checkpoint.metadata.get("use_sliding_window"):
            raise UnsupportedError("smollm3 with use_sliding_window is not supported")
        return super().adapt_config(config, checkpoint)

    def rotary_of(self, layer: int) -> RotaryTable | None:
        return self.rotary if self.has_rotary[layer] else None
