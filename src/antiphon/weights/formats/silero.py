"""Silero VAD's safetensors: one file without a config, recognised by the names of its tensors."""

from __future__ import annotations

from pathlib import Path

from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.formats.safetensors import SafetensorsFile

ARCHITECTURE = "silero-vad"
MARKS = frozenset({"stft_conv.weight", "lstm_cell.weight_hh", "final_conv.weight"})


class SileroCheckpoint(Checkpoint):
    """The tensors of one Silero VAD. Its sizes, and so its sample rate, are read from their shapes."""

    format = "silero"
    architecture = ARCHITECTURE

    def __init__(self, file: SafetensorsFile) -> None:
        super().__init__()
        self.metadata = {}
        self._tensors = file.tensors


def open_silero(path: Path) -> SileroCheckpoint | None:
    """The checkpoint in a safetensors file, or None if it is another model's."""
    file = SafetensorsFile(path)
    return SileroCheckpoint(file) if set(file.tensors) >= MARKS else None
