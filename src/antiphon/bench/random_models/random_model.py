"""Models of known shapes with random weights, so that speed can be measured without a download."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from antiphon.device_names import CPU
from antiphon.errors import CheckpointError, InvalidRequestError
from antiphon.models.registry import build_model
from antiphon.ops import Device
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.types import TensorType

#: Standard deviation of matrix weights; small enough that activations stay finite at any depth.
DEVIATION = 0.02
#: Distinct random values; tensors repeat them, since drawing billions takes minutes. A prime, so that rows differ.
POOL = 1_048_573
#: Distinct random blocks, for the same reason.
BLOCK_POOL = 65_521


def _shape(
    architecture: str, hidden: int, inner: int, layers: int, heads: tuple[int, int], vocabulary: int, **more: Any
) -> dict[str, Any]:
    """Return a configuration in Hugging Face's format; `heads` counts query heads and key heads."""
    common = {
        "model_type": architecture,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocabulary,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    return common | more


_QWEN3: dict[str, Any] = {"head_dim": 128, "rope_theta": 1e6, "max_position_embeddings": 40960}
_LLAMA3: dict[str, Any] = {"rope_theta": 5e5}

#: Configurations by shape name, with the values of the published models.
SHAPES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "qwen3-0.6b": _shape("qwen3", 1024, 3072, 28, (16, 8), 151936, **_QWEN3, tie_word_embeddings=True),
        "qwen3-1.7b": _shape("qwen3", 2048, 6144, 28, (16, 8), 151936, **_QWEN3, tie_word_embeddings=True),
        "qwen3-4b": _shape("qwen3", 2560, 9728, 36, (32, 8), 151936, **_QWEN3, tie_word_embeddings=True),
        "qwen3-8b": _shape("qwen3", 4096, 12288, 36, (32, 8), 151936, **_QWEN3),
        "llama-3.2-1b": _shape("llama", 2048, 8192, 16, (32, 8), 128256, **_LLAMA3, tie_word_embeddings=True),
        "llama-3.1-8b": _shape("llama", 4096, 14336, 32, (32, 8), 128256, **_LLAMA3),
        "smollm2-135m": _shape("llama", 576, 1536, 30, (9, 3), 49152, rope_theta=1e5, tie_word_embeddings=True),
    }
)


class RandomCheckpoint(Checkpoint):
    """Checkpoint of random bf16 tensors, created when requested; matrices may be in Q4_K.

    Vectors lie around 1, as norm weights do; biases are small. On the device `meta`, matrices have no values, so that a
    model of any size can be described.
    """

    format = "hf"

    def __init__(
        self, metadata: Mapping[str, Any], seed: int = 0, device: str = "cpu", *, in_blocks: bool = False
    ) -> None:
        super().__init__()
        self._in_blocks = in_blocks
        self._device = device
        self.metadata = metadata
        self.architecture = str(metadata["model_type"])
        self._tensors: dict[str, StoredTensor] = {}
        self._generator = torch.Generator().manual_seed(seed)
        self._pool = (torch.randn(POOL, generator=self._generator) * DEVIATION).bfloat16()

    def tensors(self) -> Mapping[str, StoredTensor]:
        """Return the tensors created so far."""
        return self._tensors

    def has(self, name: str) -> bool:
        """Return whether an optional tensor exists: only the head, unless it shares the embedding's weight."""
        return name == "lm_head.weight" and not self.metadata["tie_word_embeddings"]

    def stored(self, name: str, shape: tuple[int, ...] | None = None) -> StoredTensor:
        if shape is None:
            raise CheckpointError(f"the random tensor {name!r} has no shape")
        self._used.add(name)
        if name not in self._tensors:
            is_vector = len(shape) == 1
            if self._in_blocks and not is_vector:
                self._tensors[name] = StoredTensor(name, TensorType.Q4_K, shape, self._blocks(prod(shape)))
                return self._tensors[name]
            values = self._values(prod(shape)) if is_vector or self._device != "meta" else _no_values(prod(shape))
            if is_vector and not name.endswith(".bias"):
                values += 1
            self._tensors[name] = StoredTensor(name, TensorType.BF16, shape, values.view(torch.uint8))
        return self._tensors[name]

    def _values(self, count: int) -> Tensor:
        """Return normal values: the pool from a random position on, repeated."""
        values = torch.empty(count, dtype=torch.bfloat16)
        start = int(torch.randint(POOL, (1,), generator=self._generator))
        pool, whole = self._pool.roll(-start), count // POOL
        values[: whole * POOL].view(whole, POOL).copy_(pool.expand(whole, POOL))
        values[whole * POOL :] = pool[: count - whole * POOL]
        return values

    def _blocks(self, count: int) -> Tensor:
        """Return `count` values in Q4_K: random bits, with factors that give about the same deviation."""
        size, block = TensorType.Q4_K.block.size, TensorType.Q4_K.block.elements
        pool = torch.randint(0, 256, (BLOCK_POOL, size), dtype=torch.uint8, generator=self._generator)
        pool[:, :4] = torch.tensor([2e-4, 1.5e-3], dtype=torch.float16).view(torch.uint8)
        blocks = count // block
        if self._device == "meta":
            return torch.empty(blocks * size, dtype=torch.uint8, device="meta")
        return pool.repeat(-(-blocks // BLOCK_POOL), 1)[:blocks].reshape(-1)


def _no_values(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.bfloat16, device="meta")


class NumberTokenizer(Tokenizer):
    """Vocabulary of numbers: the text of a token is a space and its id."""

    special = SpecialTokens()
    add_bos = False
    strips_leading_space = False

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        return [int(word) for word in text.split()][:max_tokens]

    def token_bytes(self, token_id: int) -> bytes:
        return b" %d" % token_id

    def id_of(self, token_text: str) -> int | None:
        return int(token_text) if token_text.strip().isdigit() else None


def random_model(
    shape: str,
    options: WeightOptions | None = None,
    seed: int = 0,
    device: Device | None = None,
    *,
    in_blocks: bool = False,
) -> LoadedModel:
    """Build a model of this shape, ready to run. It generates numbers, and has no end-of-text token.

    Its matrices are in bf16, or in Q4_K if `in_blocks`.
    """
    if shape not in SHAPES:
        raise InvalidRequestError(f"there is no shape {shape!r}; there are: {', '.join(SHAPES)}")
    return random_model_of(f"random-{shape}", SHAPES[shape], options, seed, device, in_blocks=in_blocks)


def random_model_of(
    name: str,
    metadata: Mapping[str, Any],
    options: WeightOptions | None = None,
    seed: int = 0,
    device: Device | None = None,
    tokenizer: Tokenizer | None = None,
    *,
    in_blocks: bool = False,
) -> LoadedModel:
    """Build a model from a configuration in Hugging Face's format; on the CPU unless a device is given.

    Its tokens are numbers unless a tokenizer is given.
    """
    report, device = LoadReport(), device or Device.parse(CPU)
    with report.phase("weights"):
        model = build_model(RandomCheckpoint(metadata, seed, in_blocks=in_blocks))
        device = device.preferring(model.preferred_type)
        prepare(model, report, options or WeightOptions(), device=device)
    text = tokenizer or NumberTokenizer(model.vocab_size)
    return LoadedModel(name, model, text, None, frozenset(), report, device=device)
