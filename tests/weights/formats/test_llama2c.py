"""llama2.c checkpoints against files written array by array as llama2.c's own exporter does."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.formats.llama2c import Llama2cCheckpoint

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT = 8, 12, 2, 4, 2, 10, 6
HEAD = HIDDEN // HEADS
#: In the order of the file, with the layer count in front where there is one array a layer.
SHAPES = {
    "embed": (VOCAB, HIDDEN),
    "attention_norm": (LAYERS, HIDDEN),
    "wq": (LAYERS, HIDDEN, HIDDEN),
    "wk": (LAYERS, KV_HEADS * HEAD, HIDDEN),
    "wv": (LAYERS, KV_HEADS * HEAD, HIDDEN),
    "wo": (LAYERS, HIDDEN, HIDDEN),
    "ffn_norm": (LAYERS, HIDDEN),
    "w1": (LAYERS, INTERMEDIATE, HIDDEN),
    "w2": (LAYERS, HIDDEN, INTERMEDIATE),
    "w3": (LAYERS, INTERMEDIATE, HIDDEN),
    "norm": (HIDDEN,),
    "cos": (CONTEXT, HEAD // 2),
    "sin": (CONTEXT, HEAD // 2),
    "output": (VOCAB, HIDDEN),
}
PER_LAYER = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "wq",
    "self_attn.k_proj": "wk",
    "self_attn.v_proj": "wv",
    "self_attn.o_proj": "wo",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "w1",
    "mlp.down_proj": "w2",
    "mlp.up_proj": "w3",
}


def write(path: Path, tied: bool) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {name: shape for name, shape in SHAPES.items() if not (tied and name == "output")}
    arrays = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    vocab = VOCAB if tied else -VOCAB
    content = struct.pack("<7i", HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, vocab, CONTEXT)
    path.write_bytes(content + b"".join(array.tobytes() for array in arrays.values()))
    return arrays


@pytest.mark.parametrize("tied", [True, False])
def test_arrays_under_their_names(tmp_path: Path, tied: bool) -> None:
    path = tmp_path / "stories.bin"
    arrays = write(path, tied)
    checkpoint = Llama2cCheckpoint(path)
    assert (checkpoint.format, checkpoint.architecture) == ("llama2c", "llama")
    expected = {"model.embed_tokens.weight": arrays["embed"], "model.norm.weight": arrays["norm"]}
    for ours, theirs in PER_LAYER.items():
        for layer in range(LAYERS):
            expected[f"model.layers.{layer}.{ours}.weight"] = arrays[theirs][layer]
    if not tied:
        expected["lm_head.weight"] = arrays["output"]
    assert checkpoint.tensors().keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(checkpoint.tensor(name, array.shape).numpy(), array, err_msg=name)


def test_config(tmp_path: Path) -> None:
    write(tmp_path / "stories.bin", tied=False)
    config = Llama2cCheckpoint(tmp_path / "stories.bin").metadata
    assert config["hidden_size"] == HIDDEN and config["num_key_value_heads"] == KV_HEADS
    assert config["vocab_size"] == VOCAB and config["tie_word_embeddings"] is False
    assert config["max_position_embeddings"] == CONTEXT and config["rms_norm_eps"] == 1e-5


def test_a_size_that_does_not_fit_the_header(tmp_path: Path) -> None:
    path = tmp_path / "stories.bin"
    write(path, tied=True)
    content = path.read_bytes()
    for damaged in (content[:-4], content + b"\0"):
        path.write_bytes(damaged)
        message = f"has {len(damaged)} bytes, its llama2.c header needs {len(content)}"
        with pytest.raises(CheckpointError, match=re.escape(message)):
            Llama2cCheckpoint(path)


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 1, 1, 1, 1, 1, 1),
        (8, 12, -2, 4, 2, 10, 6),
        (9, 12, 2, 4, 2, 10, 6),
        (2**30, 12, 2, 4, 2, 10, 6),
        (8, 12, 2, 4, 3, 10, 6),
    ],
)
def test_headers_that_make_no_sense(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = tmp_path / "stories.bin"
    path.write_bytes(struct.pack("<7i", *numbers) + bytes(100))
    with pytest.raises(CheckpointError, match=r"not a llama2\.c header"):
        Llama2cCheckpoint(path)


def test_later_versions_are_rejected_by_number(tmp_path: Path) -> None:
    path = tmp_path / "stories.bin"
    path.write_bytes(struct.pack("<Ii", 0x616B3432, 2) + bytes(248))
    with pytest.raises(UnsupportedError, match="version 2 are not supported"):
        Llama2cCheckpoint(path)


@pytest.mark.weights
def test_stories_15m(model_path: Callable[[str], Path]) -> None:
    checkpoint = Llama2cCheckpoint(model_path("stories-15m"))
    assert checkpoint.metadata["hidden_size"] == 288 and checkpoint.metadata["num_hidden_layers"] == 6
    assert checkpoint.metadata["vocab_size"] == 32_000 and checkpoint.metadata["tie_word_embeddings"]
    norm = checkpoint.tensor("model.norm.weight", (288,))
    assert float(norm.min()) > 0 and float(norm.max()) < 20
