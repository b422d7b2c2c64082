"""Parts of models: declarations that runtime and executor read, so that neither knows any architecture.

A model lists its parts. Every kind of part has an executor in `executor/` and a line in `runtime/slots/registry.py`. A
new kind (an inner decoder, a codec) is a new class here.
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
    """The kind of a model's tokens."""

    TEXT = "text"  # tokens of the file's own tokenizer
    WHISPER = "whisper"  # tokens for text, languages, tasks and timestamps
    PHONEMES = "phonemes"  # phonemes of an utterance; the model states no context length
    NONE = "none"  # a detector takes no tokens


@dataclass(frozen=True)
class Recordable:
    """A function of a model that can be recorded as a program.

    `function` takes the inputs by name and the batches of `groups`. `owner` is the name of the model's class, for
    messages.
    """

    owner: str
    name: str
    inputs: tuple[InputSpec, ...]
    function: Callable[[Mapping[str, Any], dict[str, GroupBatch]], Any]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of a model, with its own requests, scheduler and executor. `owner` is the name of the model's class."""

    #: Name of the part, unique within a model.
    role: ClassVar[str]
    #: Role of the part that takes this part's results; None for the part whose results callers receive.
    feeds: ClassVar[str | None] = None

    owner: str

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        """Return the functions that can be recorded, with the model's cache bound."""
        return ()


@dataclass(frozen=True)
class CrossStates:
    """Encoder states that a decoder's cross-attention reads: those of one input, stored when its request starts."""

    group: str
    num_states: int  # per input; also the number of tokens in its cross group
    width: int
    #: Function that writes the keys and values of encoder states to the batch's cross slots, in every layer.
    store: Callable[[Tensor, Batch, KVCache], None]
    #: Function that returns logits like `forward`, and attention [heads, T, num_states] of the alignment heads.
    forward_aligned: Callable[[Batch, KVCache], tuple[Tensor, list[Tensor]]]


@dataclass(frozen=True)
class TokenDecoder(Part):
    """A predictor of next tokens over cached keys and values, which computes many requests in one step."""

    role = "decoder"

    vocab_size: int
    max_positions: int
    cache_groups: tuple[CacheGroup, ...]
    #: Function that stores keys and values of all tokens and returns the logits [L, vocab] of batch.logit_rows.
    forward: Callable[[Batch, KVCache], Tensor]
    #: Divisors of a layer's keys by group and layer, for int8 pages; see `CausalLM.key_balance`.
    key_balance: Callable[[str, int], Tensor | None]
    cross: CrossStates | None = None

    def step(self, cache: KVCache, adapted: bool = False) -> Recordable:
        """Return one step: T tokens of R requests in, L rows of logits out. `adapted`: tokens may have adapters."""
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
        """Return the function that stores keys and values of T encoder states, if there is cross-attention."""
        if self.cross is None:
            return ()
        cross = self.cross

        def store(inputs: Mapping[str, Any], groups: dict[str, GroupBatch]) -> None:
            encoded = inputs["encoded"]
            # A `Batch` requires these three arguments, but storing reads none of them.
            cross.store(encoded, Batch(encoded, encoded, encoded, groups=groups), cache)

        inputs = (InputSpec("encoded", torch.float32, ("T", cross.width)),)
        return (Recordable(self.owner, "store_encoded", inputs, store, (cross.group,)),)


@dataclass(frozen=True)
class SoundFeatures:
    """The computation of an encoder's inputs from sound on its device, in batches."""

    num_samples: int  # per input; shorter sound is padded with zeros
    #: Function from fp32 [B, num_samples] to inputs [B, …] of stage 0.
    compute: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Encoder(Part):
    """An encoder of inputs of a fixed length into states, in stages between which other models may run steps."""

    role = "encoder"
    feeds = TokenDecoder.role

    num_stages: int
    num_states: int  # per input
    #: Function (stage, x, seq_start) → states [B * num_states, hidden]. Stage 0 takes stacked inputs [B, …].
    run_stage: Callable[[int, Tensor, Tensor], Tensor]
    #: All stages as one function, or None if they cannot be recorded.
    encode: Recordable | None = None
    #: Computation of inputs from samples on a GPU, or None if requests always bring computed inputs.
    features: SoundFeatures | None = None

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        return () if self.encode is None else (self.encode,)


@dataclass(frozen=True)
class TextEmbedding(Part):
    """A function that computes one vector per text, or per pair of texts, in one pass."""

    role = "embedding"

    max_positions: int
    #: Function (token_ids [T], positions [T], seq_start [R + 1]) → vectors [R, hidden]; pairs add token_types [T].
    embed: Callable[..., Tensor]
    #: Whether tokens have a type: 0 in the first text of a pair, 1 in the second.
    takes_pairs: bool = False
    #: Function from the vectors to the caller's result, which is not recorded; None: the vectors themselves.
    head: Callable[[Tensor], Tensor] | None = None

    def forward(self) -> Recordable:
        """Return the function that computes the vectors of R texts with T tokens in all."""
        inputs = (TOKENS, POSITIONS, SEQ_START, *([TOKEN_TYPES] if self.takes_pairs else []))
        return Recordable(self.owner, "embed", inputs, lambda x, _: self.embed(*(x[spec.name] for spec in inputs)))

    def recordables(self, cache: KVCache) -> tuple[Recordable, ...]:
        return (self.forward(),)


@dataclass(frozen=True)
class SynthesisStages(Part):
    """A synthesiser of utterances in stages between which other models may run steps."""

    role = "synthesis"

    stages: tuple[str, ...]
    #: Number of first stages that compute every utterance separately.
    lone_stages: int
    max_positions: int
    style_size: int  # numbers in a voice's style; 0 for a model with a single voice
    #: Function that returns the states after a stage; see `Synthesizer.advance`.
    advance: Callable[[int, Sequence[SpeechState], ForEach], list[SpeechState]]
    #: Function that returns the speech of a state after all stages.
    speech: Callable[[SpeechState], list[Speech]]


@dataclass(frozen=True)
class Detector(Part):
    """A small function that other models use, such as voice activity.

    It runs in its own lane, one step for the inputs of many requests.
    """

    role = "detector"

    #: Maximum sum of input sizes in one step. A larger input gets its own step.
    step_size: int
    #: Function that returns an input's cost, at least 1, in a unit of the model's own.
    size: Callable[[Any], int]
    #: Function that returns a result per input. Results of one request do not depend on other requests.
    run: Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class WeightRules:
    """Rules for the form that a model's weights take at load."""

    #: Embedding tables, of which a token reads one row, and products over the vocabulary: 8 bits where matrices get 4.
    embeddings: tuple[Weight, ...] = ()
    heads: tuple[Weight, ...] = ()
    #: Matrices that only multiply states of whole inputs, never of single tokens.
    batched: tuple[Weight, ...] = ()
    #: Modules in 32 bits on GPUs, and wherever 16-bit floats have a mantissa of only eight bits.
    exact: tuple[Module, ...] = ()
    #: Type of matrices if `precision` is "fast"; None: they stay unchanged.
    fast_type: TensorType | None = None
    #: Type of float weights if `quantize` is "auto"; None: they stay floats.
    auto_quantize: str | None = None
    #: Whether `quantize` applies to this model.
    can_quantize: bool = True

    @classmethod
    def of(cls, model: Module) -> WeightRules:
        """Return the rules of a model whose embeddings and heads are modules of `layers/`."""
        nodes = list(model.modules())
        embeddings = tuple(node.weight for node in nodes if isinstance(node, Embedding))
        heads = tuple(node.weight for node in nodes if isinstance(node, Head))
        return cls(embeddings, heads)
