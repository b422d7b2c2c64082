"""The openai-whisper package as a reference, imported on first use because only `make test-all` installs it."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.dequantize.dequantize import dequantize


def openai_model(checkpoint: Checkpoint) -> Any:
    """Build openai-whisper's own module with the same weights, decoded to floats."""
    from whisper.model import ModelDimensions, Whisper

    dims = {name: checkpoint.metadata[name] for name in ModelDimensions.__annotations__}
    model = Whisper(ModelDimensions(**dims))
    state = {
        name: dequantize(stored.data, stored.type).view(stored.shape) for name, stored in checkpoint.tensors().items()
    }
    model.load_state_dict(state, strict=False)
    return model.eval()


def interpret_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the loops of the package's alignment in Python: Numba takes seconds to compile them."""
    from whisper import timing

    for name in ("dtw_cpu", "backtrace"):
        function = getattr(timing, name)
        monkeypatch.setattr(timing, name, getattr(function, "py_func", function))
