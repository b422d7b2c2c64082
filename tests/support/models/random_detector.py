"""Voice activity detector with random weights, as an engine loads it."""

from __future__ import annotations

import torch

from antiphon.models.base.companions import VOICE_ACTIVITY
from antiphon.models.silero_vad import HIDDEN, SileroVAD
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import LoadReport
from antiphon.text.tokenization.symbol_vocab import SymbolTokenizer
from antiphon.weights.formats.memory import StateDictCheckpoint

WINDOW = 256
SHAPES = {
    "stft_conv.weight": (WINDOW + 2, 1, WINDOW),
    "conv1.weight": (128, WINDOW // 2 + 1, 3),
    "conv2.weight": (64, 128, 3),
    "conv3.weight": (64, 64, 3),
    "conv4.weight": (HIDDEN, 64, 3),
    "lstm_cell.weight_ih": (4 * HIDDEN, HIDDEN),
    "lstm_cell.weight_hh": (4 * HIDDEN, HIDDEN),
    "final_conv.weight": (1, HIDDEN, 1),
}


def detector_checkpoint() -> StateDictCheckpoint:
    source = torch.Generator().manual_seed(3)
    state = {key: torch.randn(shape, generator=source) * 0.1 for key, shape in SHAPES.items()}
    for key, shape in SHAPES.items():
        if not key.startswith("stft"):
            state[key.replace("weight", "bias")] = torch.zeros(shape[0])
    return StateDictCheckpoint(state, "silero-vad", {})


def random_detector(name: str = VOICE_ACTIVITY) -> LoadedModel:
    model = SileroVAD.from_checkpoint(detector_checkpoint())
    return LoadedModel(name, model, SymbolTokenizer({}), None, frozenset(), LoadReport())
