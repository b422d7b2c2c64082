"""Pronunciation of words outside the dictionary: a small transformer from letters to phonemes, decoded as in CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from antiphon import ops
from antiphon.errors import CheckpointError
from antiphon.layers.encoder import NORM_EPS, EncoderBlock
from antiphon.layers.linear import Embedding, Linear
from antiphon.layers.norm import LayerNorm
from antiphon.models.base.detector import DetectorModel
from antiphon.models.base.model import Task
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source

NUM_HEADS = 4


class LetterToSound(DetectorModel):
    """A network from letters [T] to the likeliest phoneme in each of a few slots per letter, 0 for none."""

    architectures = ("letter-to-sound",)
    task = Task.PHONEMIZE
    step_size = 256  # letters

    def __init__(self, source: Source, letters: list[str], phonemes: list[str]) -> None:
        tensors = source.checkpoint.tensors()
        num_letters, size = tensors["m.emb.weight"].shape
        head = tensors["m.head.weight"].shape[0]
        tree = source.at("m")
        self.vocab_size = num_letters
        self.max_positions = tensors["m.pos"].shape[0]
        self.num_classes = len(phonemes) + 1
        if len(letters) + 1 != num_letters or head % self.num_classes:
            raise CheckpointError(
                f"the table names {len(letters)} letters and {len(phonemes)} phonemes; "
                f"the network has {num_letters - 1} letters and {head} outputs"
            )
        self.letters = {letter: number for number, letter in enumerate(letters, 1)}
        self.phonemes = phonemes
        self.embedding = Embedding(tree, "emb", num_letters, size)
        self.position = tree.tensor("pos", (self.max_positions, size))
        depth = sum(name.endswith(".norm1.weight") for name in tensors)
        inner = tensors["m.layers.0.linear1.weight"].shape[0]
        self.layers = [EncoderBlock(tree.at("layers", index), size, inner, NUM_HEADS) for index in range(depth)]
        self.norm = LayerNorm(tree, "norm", size, NORM_EPS)
        self.head = Linear(tree, "head", size, head, bias=True)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        tables = [checkpoint.metadata.get(key) for key in ("in", "out")]
        for table in tables:
            if not isinstance(table, list) or not all(isinstance(entry, str) for entry in table):
                raise CheckpointError("the table of letters and phonemes is not beside the network")
        letters, phonemes = tables
        assert letters is not None and phonemes is not None
        return cls(Source(checkpoint), letters, phonemes)

    def input_size(self, given: str) -> int:
        return max(1, len(given))

    @torch.inference_mode()
    def detect(self, inputs: Sequence[str]) -> list[str | None]:
        return [self.pronounce(word) for word in inputs]

    def forward(self, letters: Tensor) -> Tensor:
        """Return scores [T * slots, classes] of a word's letters [T]."""
        seq_start = torch.tensor([0, len(letters)], dtype=torch.int32)
        x = ops.add(self.embedding(letters), self.position[: len(letters)])
        for layer in self.layers:
            x = layer(x, seq_start)
        return self.head(self.norm(x)).view(-1, self.num_classes)

    def pronounce(self, word: str) -> str | None:
        """Return the phonemes of a word, or None if it has no letter that the network knows."""
        ids = [self.letters[letter] for letter in word if letter in self.letters]
        out = []
        for start in range(0, len(ids), self.max_positions):
            previous = 0
            piece = torch.tensor(ids[start : start + self.max_positions], dtype=torch.int32)
            for number in self.forward(piece).argmax(-1).tolist():
                if number and number != previous:
                    out.append(self.phonemes[number - 1])
                previous = number
        return "".join(out) or None
