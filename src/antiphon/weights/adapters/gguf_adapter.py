"""LoRA adapters in GGUF files, as llama.cpp writes and reads them."""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.adapters.adapter_file import AdapterFile, check_complete, low_rank
from antiphon.weights.formats.gguf import GGUFCheckpoint

DOWN, UP = ".lora_a", ".lora_b"
ALPHA = "adapter.lora.alpha"
#: Tensors of base models that adapters cannot change here.
FEATURES = {"token_embd.weight": "an embedding", "output.weight": "an output layer (lm_head)"}


def open_gguf_adapter(path: Path) -> AdapterFile:
    """Read the adapter in a file. Layers are named as in GGUF, such as `blk.0.attn_q.weight`."""
    checkpoint = GGUFCheckpoint(path)
    metadata = checkpoint.metadata
    kind, adapter = metadata.get("general.type"), metadata.get("adapter.type")
    if kind != "adapter":
        raise CheckpointError(f"{path} is not an adapter: its general.type is {kind!r}")
    if adapter != "lora":
        raise UnsupportedError(f"{path}: an adapter of type {adapter!r} is not supported; only 'lora'")
    if metadata.get("adapter.alora.invocation_tokens"):
        raise UnsupportedError(f"{path}: an activated adapter (adapter.alora.invocation_tokens) is not supported")
    alpha = metadata.get(ALPHA)
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha < 1e9:
        raise CheckpointError(f"{path}: {ALPHA} is {alpha!r}, not a number")
    tensors = checkpoint.tensors()
    for name in tensors:
        if not name.endswith((DOWN, UP)):
            raise UnsupportedError(f"{path}: tensor {name!r} is not part of a LoRA adapter")
        feature = FEATURES.get(name.removesuffix(DOWN).removesuffix(UP))
        if feature is not None:
            raise UnsupportedError(f"{path}: tensor {name!r} is of {feature}, which is not supported in adapters")
    downs = [name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
    check_complete(downs, [name.removesuffix(UP) for name in tensors if name.endswith(UP)], (DOWN, UP), path)
    if not downs:
        raise CheckpointError(f"{path} has no LoRA matrices")

    def scale(rank: int) -> float:
        """Return the scale for a rank; as in llama.cpp, an alpha of 0 means a scale of 1."""
        return float(alpha) / rank if alpha else 1.0

    layers = {name: low_rank(tensors, name + DOWN, name + UP, scale, path) for name in downs}
    return AdapterFile(path, "gguf", layers, checkpoint.architecture)
