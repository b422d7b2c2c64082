"""One request from prompt to text: the plain loop behind `antiphon run` and `antiphon chat`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from antiphon import ops
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import ContextLengthError, InvalidRequestError
from antiphon.executor.batch_builder import Span, build_batch
from antiphon.models.model import CausalLM
from antiphon.ops import CacheKind, CacheLayout, KVCache, SamplingRows, allocate_arena
from antiphon.ops.cache import OFFSET_UNIT
from antiphon.runtime.loading import LoadedModel
from antiphon.text.detokenizer import IncrementalDetokenizer
from antiphon.text.stop import StopStrings

#: Tokens of a prompt computed in one forward; bounds the memory of a long prompt.
CHUNK_TOKENS = 512


@dataclass
class GenerationStats:
    """What one generation cost."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    time_to_first_token: float = 0.0
    decode_seconds: float = 0.0
    bytes_per_step: int = 0
    finish_reason: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Rate of the tokens after the first."""
        return (self.output_tokens - 1) / self.decode_seconds if self.decode_seconds > 0 else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes of weights read per second while decoding."""
        return self.tokens_per_second * self.bytes_per_step


@dataclass
class Generation:
    """An iterator of text pieces; `stats` and `token_ids` are complete once it is exhausted."""

    loaded: LoadedModel
    prompt: Sequence[int]
    params: SamplingParams
    stats: GenerationStats = field(default_factory=GenerationStats)
    token_ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        limit = self.loaded.causal_lm().max_positions
        if not self.prompt:
            raise InvalidRequestError("the prompt has no tokens")
        if len(self.prompt) >= limit:
            raise ContextLengthError(
                f"prompt has {len(self.prompt)} tokens; model {self.loaded.name!r} takes {limit}, the answer included"
            )

    def __iter__(self) -> Iterator[str]:
        started = time.perf_counter()
        model, tokenizer, params = self.loaded.causal_lm(), self.loaded.tokenizer, self.params
        capacity = min(model.max_positions, len(self.prompt) + params.max_tokens)
        sequence = _Sequence(model, capacity, tokenizer.vocab_size)
        detokenizer = IncrementalDetokenizer(tokenizer, prompt_ids=self.prompt)
        stops = StopStrings(params.stop)
        self.stats.prompt_tokens = len(self.prompt)
        self.stats.bytes_per_step = bytes_per_step(model)
        last_token_at = started
        pending: Sequence[int] = self.prompt
        while True:
            token = sequence.advance(pending, params, len(self.token_ids))
            last_token_at = time.perf_counter()
            self.token_ids.append(token)
            self.stats.output_tokens += 1
            if self.stats.output_tokens == 1:
                self.stats.time_to_first_token = last_token_at - started
            self.stats.decode_seconds = last_token_at - started - self.stats.time_to_first_token
            if token in self.loaded.eos_ids and not params.ignore_eos:
                self.stats.finish_reason = "stop"
                break
            text, stopped = stops.push(detokenizer.push(token))
            if text:
                yield text
            if stopped:
                self.stats.finish_reason = "stop"
                return
            if len(self.token_ids) >= params.max_tokens or sequence.length + 1 > capacity:
                self.stats.finish_reason = "length"
                break
            pending = [token]
        text, stopped = stops.push(detokenizer.flush())
        rest = text if stopped else text + stops.flush()
        if rest:
            yield rest


def bytes_per_step(model: CausalLM) -> int:
    """Weight bytes that decoding one token reads: everything but an embedding table that is only looked up."""
    weights = {id(weight): weight for weight in model.weights()}
    embedding, head = getattr(model, "embedding", None), getattr(model, "head", None)
    if embedding is not None and head is not None and embedding.weight is not head.weight:
        weights.pop(id(embedding.weight))
    return sum(weight.resident_bytes for weight in weights.values())


class _Sequence:
    """The pages and progress of one request that has an arena to itself."""

    def __init__(self, model: CausalLM, capacity: int, vocab_size: int) -> None:
        self._model = model
        self._vocab_size = vocab_size
        self.length = 0
        layouts = [CacheLayout(group) for group in model.cache_groups() if group.kind is not CacheKind.CROSS]
        self._tables: dict[str, list[int]] = {}
        offset = 0
        for layout in layouts:
            count = -(-capacity // layout.block_tokens)
            self._tables[layout.group.name] = [(offset + i * layout.block_bytes) // OFFSET_UNIT for i in range(count)]
            offset += count * layout.block_bytes
        self._cache = KVCache(allocate_arena(offset), layouts)

    def advance(self, tokens: Sequence[int], params: SamplingParams, index: int) -> int:
        """Compute the tokens, in chunks, and draw the next one."""
        for start in range(0, len(tokens), CHUNK_TOKENS):
            chunk = tokens[start : start + CHUNK_TOKENS]
            span = Span(chunk, self.length, self._tables, wants_logits=start + CHUNK_TOKENS >= len(tokens))
            logits = self._model.forward(build_batch([span], self._cache.layouts), self._cache)
            self.length += len(chunk)
        # Rows of the head beyond the tokenizer's vocabulary are padding and must never be drawn.
        chosen, _ = ops.sample(logits[:, : self._vocab_size], _rows(params, index))
        return int(chosen[0])


def _rows(params: SamplingParams, index: int) -> SamplingRows:
    return SamplingRows(
        temperature=torch.tensor([params.temperature], dtype=torch.float32),
        top_k=torch.tensor([params.top_k], dtype=torch.int32),
        top_p=torch.tensor([params.top_p], dtype=torch.float32),
        min_p=torch.tensor([params.min_p], dtype=torch.float32),
        seed=torch.tensor([params.seed], dtype=torch.int64),
        index=torch.tensor([index], dtype=torch.int64),
    )
