"""Architecture of scripted models, which generate the answers that a test gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache
from antiphon.weights.checkpoint import Checkpoint

ARCHITECTURE = "scripted"
#: Configuration key: path of the JSON file that lists the answers' tokens.
SCRIPT = "script_path"


class ScriptedAnswers(CausalLM):
    """Model that generates the script file's answers in order, one per request. Requests must not overlap."""

    architectures = (ARCHITECTURE,)

    def __init__(self, script: Path, vocab_size: int, max_positions: int) -> None:
        self.vocab_size = vocab_size
        self.max_positions = max_positions
        self._script = script
        self._number = -1
        self._answer = 0
        self._begin = 0
        self._last = -1

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        checkpoint.tensor("weight", (1,))
        metadata = checkpoint.metadata
        return cls(Path(metadata[SCRIPT]), metadata["vocab_size"], metadata["max_position_embeddings"])

    def cache_groups(self) -> list[CacheGroup]:
        return [CacheGroup("self", CacheKind.FULL, 1, 1, 8)]

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        logits = torch.zeros(len(batch.logit_rows), self.vocab_size)
        for row, position in enumerate(batch.positions[batch.logit_rows].tolist()):
            script = json.loads(self._script.read_text())
            if script["number"] != self._number:
                self._number, self._answer, self._begin = script["number"], 0, position
            elif position != self._last + 1:  # the first token of another request
                self._answer, self._begin = self._answer + 1, position
            ids = script["answers"][min(self._answer, len(script["answers"]) - 1)]
            logits[row, ids[min(position - self._begin, len(ids) - 1)]] = 100.0
            self._last = position
        return logits
