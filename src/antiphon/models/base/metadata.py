"""Sizes read from foreign metadata, with errors that name the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.errors import CheckpointError
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import checked_size


def require(config: Mapping[str, Any], key: str) -> int:
    """Return a required size of a `config.json`."""
    if config.get(key) is None:
        raise CheckpointError(f"config.json of a {config.get('model_type', 'model')} has no {key!r}")
    return checked_size(key, config[key])


def hf_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `TransformerSizes` that nearly every `config.json` has, by their usual keys."""
    return {
        "vocab_size": require(config, "vocab_size"),
        "hidden_size": require(config, "hidden_size"),
        "intermediate_size": require(config, "intermediate_size"),
        "num_layers": require(config, "num_hidden_layers"),
        "num_heads": require(config, "num_attention_heads"),
        "max_positions": require(config, "max_position_embeddings"),
    }


class GGUFKeys:
    """The metadata of a GGUF file by keys without the architecture's prefix."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._prefix = checkpoint.architecture + "."

    def get(self, key: str, default: Any = None) -> Any:
        return self._checkpoint.metadata.get(self._prefix + key, default)

    def _present(self, key: str, default: Any) -> Any:
        value = self.get(key, default)
        if value is None:
            raise CheckpointError(f"GGUF of a {self._checkpoint.architecture} has no key {self._prefix + key!r}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        return checked_size(self._prefix + key, self._present(key, default))

    def number(self, key: str, default: float | None = None) -> float:
        value = self._present(key, default)
        if not isinstance(value, int | float):
            raise CheckpointError(f"GGUF key {self._prefix + key!r} is {value!r}, not a number")
        return float(value)

    def sizes(self, intermediate_size: int | None = None) -> dict[str, Any]:
        """Return the fields of `TransformerSizes`; `intermediate_size` is the default for files without one."""
        return {
            # Rows of the embedding: the only figure certain to agree with the tensors.
            "vocab_size": self._checkpoint.stored("token_embd.weight").shape[0],
            "hidden_size": self.integer("embedding_length"),
            "intermediate_size": self.integer("feed_forward_length", intermediate_size),
            "num_layers": self.integer("block_count"),
            "num_heads": self.integer("attention.head_count"),
            "max_positions": self.integer("context_length"),
        }
