"""Opening of a LoRA adapter in any format."""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import CheckpointError, ModelNotFoundError
from antiphon.regular_file import open_regular
from antiphon.weights.adapters.adapter_file import AdapterFile
from antiphon.weights.adapters.gguf_adapter import open_gguf_adapter
from antiphon.weights.adapters.peft import CONFIG_NAME, WEIGHTS_NAME, open_peft
from antiphon.weights.formats import gguf


def adapter_weights(path: Path) -> Path:
    """Return the weights file of the adapter at `path`: a GGUF file, or a folder with a PEFT or GGUF adapter.

    Raise `ModelNotFoundError` if there is no adapter.
    """
    if path.is_dir():
        if not (path / CONFIG_NAME).exists():
            found = sorted(path.glob("*.gguf"))
            if len(found) == 1:
                return found[0]
            raise ModelNotFoundError(f"{path} contains no adapter (no {CONFIG_NAME}, {len(found)} .gguf files)")
        return path / WEIGHTS_NAME
    if not path.exists():
        raise ModelNotFoundError(f"there is no adapter {path}: no such file or folder")
    return path


def open_adapter(path: Path) -> AdapterFile:
    """Open the adapter at `path`; every failure is an `AntiphonError` that names the file and the cause."""
    weights = adapter_weights(path)
    if weights.name == WEIGHTS_NAME:
        return open_peft(weights.parent)
    try:
        with open_regular(weights) as file:
            start = file.read(len(gguf.MAGIC))
    except OSError as error:
        raise CheckpointError(f"cannot read {weights}: {error.strerror or error}") from error
    if start != gguf.MAGIC:
        raise CheckpointError(f"{weights} is not an adapter: neither GGUF nor a folder with {CONFIG_NAME}")
    return open_gguf_adapter(weights)
