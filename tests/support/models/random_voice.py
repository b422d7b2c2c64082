"""Speech models of known shapes with random weights, so that speed can be measured without a download."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from types import MappingProxyType
from typing import Any

import torch

from antiphon.bench.random_models.random_model import RandomCheckpoint
from antiphon.device_names import CPU
from antiphon.models.base.speech_state import Utterance
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.models.registry import build_model
from antiphon.ops import Device
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from antiphon.weights.checkpoint import StoredTensor
from antiphon.weights.types import TensorType

#: Token ids by symbol, in a random voice.
VOCABULARY = {chr(ord("!") + number): number for number in range(1, 100)}

_BLOCKS = {
    "upsample_rates": [10, 6],
    "upsample_kernel_sizes": [20, 12],
    "upsample_initial_channel": 512,
    "resblock_kernel_sizes": [3, 7, 11],
    "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    "gen_istft_n_fft": 20,
    "gen_istft_hop_size": 5,
}
_BERT = {
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "max_position_embeddings": 512,
}
#: Configurations by shape name, with the values of the published models.
VOICE_SHAPES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "hibari-6m": {"model_type": "hibari", "vocab": VOCABULARY},
        "kokoro-82m": {
            "model_type": "kokoro",
            "n_token": 178,
            "hidden_dim": 512,
            "style_dim": 128,
            "n_layer": 3,
            "text_encoder_kernel_size": 5,
            "max_dur": 50,
            "plbert": _BERT,
            "istftnet": _BLOCKS,
            "vocab": VOCABULARY,
        },
    }
)

#: Constant values by name pattern: slopes of "snake" activations, which are divisors; biases for about three frames per
#: phoneme and for a voiced pitch.
_FIXED = {
    "*.alpha[12].*": 1.0,
    "*duration_proj.linear_layer.bias": -2.8,
    "*F0_proj.bias": 120.0,
    "*dur.2.bias": 1.4,
    "*pro_out.bias": 1.2,
}


class RandomVoice(RandomCheckpoint):
    """Random fp32 checkpoint, as speech models are published, whose phonemes are as long as in speech."""

    def has(self, name: str) -> bool:
        return True

    def stored(self, name: str, shape: tuple[int, ...] | None = None) -> StoredTensor:
        is_known = name in self._tensors
        stored = super().stored(name, shape)
        if is_known:
            return stored
        values = stored.data.view(torch.bfloat16).float()
        fixed = next((value for pattern, value in _FIXED.items() if fnmatch(name, pattern)), None)
        if fixed is not None:
            values.fill_(fixed)
        self._tensors[name] = StoredTensor(name, TensorType.F32, stored.shape, values.view(torch.uint8))
        return self._tensors[name]


def random_voice(
    metadata: Mapping[str, Any], options: WeightOptions | None = None, seed: int = 0, device: Device | None = None
) -> Synthesizer:
    """Build a speech model with random weights, ready to run; on the CPU unless a device is given."""
    model = build_model(RandomVoice(metadata, seed))
    assert isinstance(model, Synthesizer)
    prepare(model, LoadReport(), options or WeightOptions(), device=device or Device.parse(CPU))
    return model


def random_utterance(model: Synthesizer, num_ids: int, seed: int = 0) -> Utterance:
    """Return `num_ids` ids with random phonemes, in a random voice."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, len(VOCABULARY), (num_ids - 2,), generator=generator).tolist()
    style = torch.randn(model.style_size, generator=generator) * 0.3
    return Utterance([0, *ids, 0], style, seed=seed)
