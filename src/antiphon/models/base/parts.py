"""What a model is made of: the declaration that runtime and executor read, so that neither knows an architecture.

A model lists its parts. Every kind of part has an executor in `executor/` and a line in `runtime/slots/registry.py`.
A new kind (an inner decoder, a codec) is one more class here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import torch
from torch import Tensor

from antiphon.layers.linear import Embedding, Head
from antiphon.layers.module import Module
from antiphon.models.base.speech_state import ForEach, Speech, SpeechState
from antiphon.ops import Batch, CacheGroup, GroupBatch, KVCache
from antiphon.ops.program import InputSpec
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

TOKENS = InputSpec("token_ids", torch.int32, ("T",))
POSITIONS = InputSpec("positions", torch.int32, ("T",))
QUERY_START = InputSpec("query_start", torch.int32, (("R", 1),))
LOGIT_ROWS = InputSpec("logit_rows", torch.int64, ("L",))
ADAPTERS = InputSpec("adapters", torch.int32, ("T",))
SEQ_START = InputSpec("seq_start", torch.int32, (("R", 1),))
TOKEN_TYPES = InputSpec("token_types", torch.int32, ("T",))


class VocabularyKind(StrEnum):
    """What a model's tokens are."""

    TEXT = "text"  # from the file's own tokenizer
    WHISPER = "whisper"  # text, languages, tasks and timestamps
    PHONEMES = "phonemes"  # of one utterance at a time: no context length is stated
    NONE = "none"  # a detector takes no tokens


@dataclass(frozen=True)
class Recordable:
    """A function of a model that can be recorded as a program.

    `function` takes the inputs by name and the batches of `groups`. `owner` is the model's class, for messages.
    """

    owner: str
    name: str
    inputs: tuple[InputSpec, ...]
    function: Callable[[Mapping[str, Any], dict[str, GroupBatch]], Any]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One part of a model, with its own requests, scheduler and executor. `owner` is the model's class."""

    #: Unique among the parts of a model.
    role: ClassVar[str]
    #: The role of the part that takes this part's results. The part that feeds no other serves the callers.
    feeds: ClassVar[str | None] = None

    owner: str

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        """What can be recorded, over the model's cache."""
        return ()


@dataclass(frozen=True)
class CrossStates:
    """What a decoder's cross-attention needs: the states of one input, stored when its request starts."""

    group: str
    num_states: int  # of one input: also the tokens that its cross group holds
    width: int
    #: Write every layer's keys and values of encoder states to the batch's cross slots.
    store: Callable[[Tensor, Batch, KVCache], None]
    #: Logits as `forward` gives them, and the attention [heads, T, num_states] of the heads that follow the input.
    forward_aligned: Callable[[Batch, KVCache], tuple[Tensor, list[Tensor]]]


@dataclass(frozen=True)
class TokenDecoder(Part):
    """Predicts the next token, over cached keys and values. Computed token by token, many requests in one step."""

    role = "decoder"

    vocab_size: int
    max_positions: int
    cache_groups: tuple[CacheGroup, ...]
    #: Logits [L, vocab] of batch.logit_rows; stores the keys and values of every token of the batch.
    forward: Callable[[Batch, KVCache], Tensor]
    #: Divisors of a layer's keys by group and layer, for int8 pages; see `CausalLM.key_balance`.
    key_balance: Callable[[str, int], Tensor | None]
    cross: CrossStates | None = None

    def step(self, cache: KVCache, adapted: bool = False) -> Recordable:
        """One step: T tokens of R requests in, logits of L rows out. `adapted`: tokens may have adapters."""
        return Recordable(
            self.owner,
            "adapted_forward" if adapted else "forward",
            (TOKENS, POSITIONS, QUERY_START, LOGIT_ROWS, *((ADAPTERS,) if adapted else ())),
            lambda inputs, groups: self.forward(Batch(groups=groups, **inputs), cache),
            tuple(cache.layouts),
        )

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        return (*self._store_encoded(cache), self.step(cache))

    def _store_encoded(self, cache: KVCache) -> tuple[Recordable, ...]:
        """Keys and values of T encoder states to the cross slots, for a decoder with cross-attention."""
        if self.cross is None:
            return ()
        cross = self.cross

        def store(inputs: Mapping[str, Any], groups: dict[str, GroupBatch]) -> None:
            encoded = inputs["encoded"]
            # A batch has these three in any case; storing reads none of them.
            cross.store(encoded, Batch(encoded, encoded, encoded, groups=groups), cache)

        inputs = (InputSpec("encoded", torch.float32, ("T", cross.width)),)
        return (Recordable(self.owner, "store_encoded", inputs, store, (cross.group,)),)


@dataclass(frozen=True)
class SoundFeatures:
    """Inputs of an encoder made of sound on its device, for many at once."""

    num_samples: int  # of one input; shorter sound is followed by zeros
    #: fp32 [B, num_samples] → inputs [B, …] of stage 0.
    compute: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Encoder(Part):
    """Turns inputs of one fixed length into states, in stages that other models' steps may come between."""

    role = "encoder"
    feeds = TokenDecoder.role

    num_stages: int
    num_states: int  # of one input
    #: (stage, x, seq_start) → states [B * num_states, hidden]. Stage 0 takes inputs stacked [B, …].
    run_stage: Callable[[int, Tensor, Tensor], Tensor]
    #: All stages as one function, where they can be recorded.
    encode: Recordable | None = None
    #: On a GPU, requests have samples as inputs where this is given.
    features: SoundFeatures | None = None

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        return () if self.encode is None else (self.encode,)


@dataclass(frozen=True)
class TextEmbedding(Part):
    """One vector per text, or per pair of texts, computed in one pass."""

    role = "embedding"

    max_positions: int
    #: (token_ids [T], positions [T], seq_start [R + 1]) → vectors [R, hidden]; for pairs also token_types [T].
    embed: Callable[..., Tensor]
    #: Whether tokens have a type: 0 in the first text of a pair, 1 in the second.
    takes_pairs: bool = False
    #: From the vectors to what the caller gets. It is not recorded.
    head: Callable[[Tensor], Tensor] | None = None

    def forward(self) -> Recordable:
        """Vectors of R texts of T tokens together."""
        inputs = (TOKENS, POSITIONS, SEQ_START, *([TOKEN_TYPES] if self.takes_pairs else []))
        return Recordable(self.owner, "embed", inputs, lambda x, _: self.embed(*(x[spec.name] for spec in inputs)))

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        return (self.forward(),)


@dataclass(frozen=True)
class SynthesisStages(Part):
    """Speaks utterances in stages that other models' steps may come between."""

    role = "synthesis"

    stages: tuple[str, ...]
    #: How many stages, from the first, compute every utterance by itself.
    lone_stages: int
    max_positions: int
    style_size: int  # numbers in a voice's style; 0 for a model with one voice
    #: The states after a stage; see `Synthesizer.advance`.
    advance: Callable[[int, Sequence[SpeechState], ForEach], list[SpeechState]]
    #: The speech of a state that went through all stages.
    speech: Callable[[SpeechState], list[Speech]]


@dataclass(frozen=True)
class Detector(Part):
    """A small function that other models' calls use, such as voice activity. Runs on a lane of its own, in one step
    for the inputs of many requests.
    """

    role = "detector"

    #: Inputs that one step takes together, by the sum of their sizes. A larger one is a step by itself.
    step_size: int
    #: The size of an input, 1 or more: its cost, in a unit of the model's own.
    size: Callable[[Any], int]
    #: The result of every input. Those of one request do not depend on the others.
    run: Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class WeightRules:
    """Which weights of a model take which form when it is loaded."""

    #: Tables that a token reads one row of, and products over the vocabulary: 8 bits where matrices get 4.
    embeddings: tuple[Weight, ...] = ()
    heads: tuple[Weight, ...] = ()
    #: Matrices that only multiply the states of whole inputs, never those of single tokens.
    batched: tuple[Weight, ...] = ()
    #: Modules that stay in 32 bits on GPUs, and where 16-bit floats have a mantissa of only eight bits.
    exact: tuple[Module, ...] = ()
    #: What matrices become where `precision` is "fast"; None: they stay as they are.
    fast_type: TensorType | None = None
    #: What float weights become where `quantize` is "auto"; None: they stay floats.
    auto_quantize: str | None = None
    #: Whether `quantize` applies at all.
    can_quantize: bool = True

    @classmethod
    def of(cls, model: Module) -> WeightRules:
        """The rules of a model whose embeddings and heads are those of `layers/`."""
        nodes = list(model.modules())
        embeddings = tuple(node.weight for node in nodes if isinstance(node, Embedding))
        heads = tuple(node.weight for node in nodes if isinstance(node, Head))
        return cls(embeddings, heads)
