"""Checkpoint files of a model with random weights, for servers, which load models from files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.bench.random_models.random_model import RandomCheckpoint
from antiphon.models.registry import build_model

#: Token of the tokenizer's file that ends an answer.
END = "<|end|>"


def write_random_model(folder: Path, metadata: Mapping[str, Any], seed: int = 0) -> Path:
    """Write a folder in Hugging Face's layout: bf16 weights, and a vocabulary of bytes and numbers.

    `metadata` becomes `config.json`. The text of most tokens is a space and a number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(metadata)))
    _write_vocabulary(folder, int(metadata["vocab_size"]))
    checkpoint = RandomCheckpoint(metadata, seed)
    build_model(checkpoint)
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in checkpoint.tensors().items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in checkpoint.tensors().values():
            file.write(tensor.data.numpy().data)
    return folder


def _write_vocabulary(folder: Path, size: int) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    numbers = [f"Ġ{number}" for number in range(size - len(alphabet) - 1)]
    vocabulary = {token: index for index, token in enumerate([*alphabet, *numbers])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "bos_token": None}))
