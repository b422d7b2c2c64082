"""Silero VAD's safetensors file without a config, recognised by the names of its tensors."""

from __future__ import annotations

from pathlib import Path

from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.formats.safetensors import SafetensorsFile

ARCHITECTURE = "silero-vad"
MARKS = frozenset({"stft_conv.weight", "lstm_cell.weight_hh", "final_conv.weight"})


class SileroCheckpoint(Checkpoint):
    """The tensors of a Silero VAD. Sizes and sample rate follow from the tensors' shapes."""

    format = "silero"
    architecture = ARCHITECTURE

    def __init__(self, file: SafetensorsFile) -> None:
        super().__init__()
        self.metadata = {}
        self._tensors = file.tensors


def open_silero(path: Path) -> SileroCheckpoint | None:
    """Return the checkpoint in a safetensors file, or None if the file is another model's."""
    file = SafetensorsFile(path)
    return SileroCheckpoint(file) if set(file.tensors) >= MARKS else None
