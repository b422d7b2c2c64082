"""Model that generates a given script, for tests of the code around a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import LoadReport
from antiphon.text.tokenization.hf_vocab import FileTokenizer
from antiphon.weights.checkpoint import Checkpoint
from support.models.tiny_model import CHAT_TEMPLATE, EMBEDDING_ROWS, tiny_tokenizer


class ScriptedModel(CausalLM):
    """Model whose most likely tokens after `prompt_tokens` tokens are the script's. `fed` lists its input."""

    def __init__(self, script: Sequence[int], prompt_tokens: int, max_positions: int = 1024) -> None:
        self.vocab_size = EMBEDDING_ROWS
        self.max_positions = max_positions
        self.fed: list[int] = []
        self.chunks: list[int] = []
        self._script = list(script)
        self._prompt_tokens = prompt_tokens

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        raise NotImplementedError

    def cache_groups(self) -> list[CacheGroup]:
        return [CacheGroup("self", CacheKind.FULL, 1, 1, 8)]

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        assert batch.token_ids is not None
        assert batch.positions.tolist() == list(range(len(self.fed), len(self.fed) + len(batch.token_ids)))
        self.fed += batch.token_ids.tolist()
        self.chunks.append(len(batch.token_ids))
        logits = torch.zeros(len(batch.logit_rows), self.vocab_size)
        logits[:, -1] = 1e4  # a padding row of the head, which is not in the tokenizer's vocabulary
        index = len(self.fed) - self._prompt_tokens
        if len(logits) and index < len(self._script):
            logits[0, self._script[index]] = 100.0
        return logits


def scripted(script: Sequence[int], prompt: Sequence[int], max_positions: int = 1024) -> LoadedModel:
    from antiphon.text.chat_template import ChatTemplate

    tokenizer = FileTokenizer(tiny_tokenizer(), {"eos_token": "<|im_end|>"})
    model = ScriptedModel(script, len(prompt), max_positions)
    template = ChatTemplate.for_tokenizer(CHAT_TEMPLATE, tokenizer)
    return LoadedModel("scripted", model, tokenizer, template, tokenizer.eos_ids, LoadReport())
