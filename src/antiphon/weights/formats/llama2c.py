"""llama2.c checkpoints of version 0: seven numbers, then float32 arrays in a fixed order.

Hand-written: no package reads this format; an untrusted file is validated and its arrays stay mapped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType

HEADER = struct.Struct("<7i")
#: First word of later versions, "ak42", before the version.
LATER_MAGIC = 0x616B3432
FLOAT_BYTES = 4
#: Maximum of each number in the header.
MAX_SIZE = 1 << 24


@dataclass(frozen=True)
class Llama2cHeader:
    """The header's seven numbers; the sign of the vocabulary (negative: the output matrix is stored) becomes `tied`."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocab_size: int
    context: int
    tied: bool

    @classmethod
    def parse(cls, start: bytes) -> Llama2cHeader | None:
        """Return the header in a file's first bytes, or None if they are not a plausible header."""
        if len(start) < HEADER.size:
            return None
        hidden, intermediate, layers, heads, kv_heads, vocab, context = HEADER.unpack_from(start)
        sizes = (hidden, intermediate, layers, heads, kv_heads, abs(vocab), context)
        if min(sizes) < 1 or max(sizes) > MAX_SIZE:
            return None
        if hidden % heads or heads % kv_heads or hidden // heads % 2:
            return None
        return cls(hidden, intermediate, layers, heads, kv_heads, abs(vocab), context, tied=vocab > 0)

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads

    def arrays(self) -> Iterator[tuple[str, tuple[int, ...], bool]]:
        """Yield (name, shape, whether there is one array per layer) in the file's order; "" names an unused array."""
        hidden, kv_hidden = self.hidden_size, self.num_kv_heads * self.head_size
        yield "model.embed_tokens.weight", (self.vocab_size, hidden), False
        yield "input_layernorm.weight", (hidden,), True
        yield "self_attn.q_proj.weight", (hidden, hidden), True
        yield "self_attn.k_proj.weight", (kv_hidden, hidden), True
        yield "self_attn.v_proj.weight", (kv_hidden, hidden), True
        yield "self_attn.o_proj.weight", (hidden, hidden), True
        yield "post_attention_layernorm.weight", (hidden,), True
        yield "mlp.gate_proj.weight", (self.intermediate_size, hidden), True
        yield "mlp.down_proj.weight", (hidden, self.intermediate_size), True
        yield "mlp.up_proj.weight", (self.intermediate_size, hidden), True
        yield "model.norm.weight", (hidden,), False
        yield "", (self.context, self.head_size), False  # cosines and sines of the rotary embedding
        if not self.tied:
            yield "lm_head.weight", (self.vocab_size, hidden), False

    def file_size(self) -> int:
        floats = sum(
            (self.num_layers if per_layer else 1) * shape[0] * (shape[1] if len(shape) > 1 else 1)
            for _, shape, per_layer in self.arrays()
        )
        return HEADER.size + floats * FLOAT_BYTES

    def config(self) -> dict[str, Any]:
        """Return the header as a Hugging Face llama config."""
        return {
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_size,
            "vocab_size": self.vocab_size,
            "max_position_embeddings": self.context,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "tie_word_embeddings": self.tied,
        }


class Llama2cCheckpoint(Checkpoint):
    """A llama2.c file under Hugging Face's names. Rows of q and k are in interleaved rotary order, as in the file."""

    format = "llama2c"
    architecture = "llama"

    def __init__(self, path: Path) -> None:
        super().__init__()
        mapped = MappedFile(path)
        self._maps = [mapped]
        start = bytes(mapped.buffer[: HEADER.size])
        if len(start) >= 8 and int.from_bytes(start[:4], "little") == LATER_MAGIC:
            version = int.from_bytes(start[4:8], "little")
            raise UnsupportedError(f"{path}: llama2.c files of version {version} are not supported, only version 0")
        header = Llama2cHeader.parse(start)
        if header is None:
            raise CheckpointError(f"{path}: its first {HEADER.size} bytes are not a llama2.c header")
        if header.file_size() != mapped.size:
            raise CheckpointError(f"{path}: has {mapped.size} bytes, its llama2.c header needs {header.file_size()}")
        self.metadata = header.config()
        self._tensors: dict[str, StoredTensor] = {}
        data, position = mapped.tensor(), HEADER.size
        for name, shape, per_layer in header.arrays():
            names = [f"model.layers.{layer}.{name}" for layer in range(header.num_layers)] if per_layer else [name]
            size = shape[0] * (shape[1] if len(shape) > 1 else 1) * FLOAT_BYTES
            for full_name in names:
                if full_name:
                    view = data[position : position + size]
                    self._tensors[full_name] = StoredTensor(full_name, TensorType.F32, shape, view)
                position += size
