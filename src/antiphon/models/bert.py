"""BERT as an encoder of sentences: post-norm blocks and the checkpoint's pooling. arXiv:1810.04805, 1908.10084.

With a classifier of one label it is a cross-encoder, which scores pairs of texts. arXiv:1901.04085.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import torch
from torch import Tensor

from antiphon import ops
from antiphon.errors import UnsupportedError
from antiphon.layers.attention import EncoderAttention
from antiphon.layers.decoder import TransformerSizes
from antiphon.layers.linear import Embedding
from antiphon.layers.mlp import MLP
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.models.base.metadata import GGUFKeys, hf_sizes, require
from antiphon.models.base.model import Model, Task
from antiphon.models.base.parts import TextEmbedding
from antiphon.ops import Activation
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import number, section
from antiphon.weights.source import Source, TensorNames
from antiphon.weights.weight import Weight

_ATTENTION = ("self.query", "self.key", "self.value", "output.dense")

GGUF_NAMES = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
    **{
        f"encoder.layer.{{}}.{ours}.{kind}": f"blk.{{}}.{theirs}.{kind}"
        for ours, theirs in (
            ("attention.self.query", "attn_q"),
            ("attention.self.key", "attn_k"),
            ("attention.self.value", "attn_v"),
            ("attention.output.dense", "attn_output"),
            ("attention.output.LayerNorm", "attn_output_norm"),
            ("intermediate.dense", "ffn_up"),
            ("output.dense", "ffn_down"),
            ("output.LayerNorm", "layer_output_norm"),
        )
        for kind in ("weight", "bias")
    },
}

_ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}


class Pooling(StrEnum):
    MEAN = "mean"
    CLS = "cls"


@dataclass(frozen=True, kw_only=True)
class BertConfig(TransformerSizes):
    type_vocab_size: int
    activation: Activation
    pooling: Pooling
    normalize: bool


class BertLayer(Module):
    """norm(x + attention(x)), then norm(x + mlp(x))."""

    def __init__(self, source: Source, config: BertConfig) -> None:
        hidden = config.hidden_size
        self.attention = EncoderAttention(source.at("attention"), hidden, config.num_heads, _ATTENTION)
        self.attention_norm = LayerNorm(source, "attention.output.LayerNorm", hidden, config.norm_eps)
        self.mlp = MLP(
            source, "intermediate.dense", "output.dense", hidden, config.intermediate_size, config.activation
        )
        self.output_norm = LayerNorm(source, "output.LayerNorm", hidden, config.norm_eps)

    def __call__(self, x: Tensor, seq_start: Tensor) -> Tensor:
        x = self.attention_norm(self.attention(x, seq_start, residual=x))
        return self.output_norm(self.mlp(x, residual=x))


class Bert(Model):
    """A model from concatenated sentences to one vector each."""

    architectures = ("bert",)
    task = Task.EMBED
    #: Layer outputs are normalised, so fp16 has enough range; bf16 would round eight times as coarsely.
    preferred_type = torch.float16
    ignores: ClassVar[tuple[str, ...]] = ("*pooler.*", "cls.*", "*position_ids")

    def __init__(self, config: BertConfig, source: Source) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.max_positions = config.max_positions
        hidden, tree = config.hidden_size, source.at("embeddings")
        self.words = Embedding(tree, "word_embeddings", config.vocab_size, hidden)
        self.positions = Embedding(tree, "position_embeddings", config.max_positions, hidden)
        # All tokens of a single text have type 0.
        self.token_type = tree.tensor("token_type_embeddings.weight", (config.type_vocab_size, hidden))[0]
        self.norm = LayerNorm(tree, "LayerNorm", hidden, config.norm_eps)
        self.layers = [BertLayer(source.at("encoder", "layer", index), config) for index in range(config.num_layers)]

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Bert:
        if checkpoint.format == "gguf":
            return cls(_config_from_gguf(checkpoint), Source(checkpoint, TensorNames(GGUF_NAMES)))
        config = checkpoint.metadata
        activation = _ACTIVATIONS.get(str(config.get("hidden_act", "gelu")))
        if activation is None or config.get("position_embedding_type", "absolute") != "absolute":
            raise UnsupportedError(
                f"bert with hidden_act {config.get('hidden_act')!r} and "
                f"position_embedding_type {config.get('position_embedding_type')!r} is not supported"
            )
        pooling, normalize = _sentence_head(config)
        prefix = "bert." if checkpoint.has("bert.embeddings.word_embeddings.weight") else ""
        ours = BertConfig(
            **hf_sizes(config),
            norm_eps=number(config, "layer_norm_eps", 1e-12),
            type_vocab_size=require(config, "type_vocab_size"),
            activation=activation,
            pooling=pooling,
            normalize=normalize,
        )
        source = Source(checkpoint, lambda name: prefix + name)
        if checkpoint.has("classifier.weight"):
            return BertCrossEncoder(ours, source, PairHead(checkpoint, source, ours.hidden_size))
        return cls(ours, source)

    def parts(self) -> tuple[TextEmbedding, ...]:
        return (TextEmbedding(owner="Bert", max_positions=self.max_positions, embed=self.embed),)

    def forward(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor) -> Tensor:
        """Return the last hidden states [T, hidden] of the concatenated sequences seq_start [R + 1]."""
        return self.encode(token_ids, positions, seq_start, self.token_type)

    def encode(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor, types: Tensor) -> Tensor:
        """Return hidden states; `types` [hidden] or [T, hidden] are the embeddings of the tokens' types."""
        x = self.norm(ops.add(ops.add(self.words(token_ids), self.positions(positions)), types))
        for layer in self.layers:
            x = layer(x, seq_start)
        return x

    def embed(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor) -> Tensor:
        """Return one vector [R, hidden] per sequence, pooled and normalised according to the checkpoint."""
        x = self.forward(token_ids, positions, seq_start)
        mean = self.config.pooling is Pooling.MEAN
        pooled = ops.segment_mean(x, seq_start) if mean else ops.gather_rows(x, seq_start[:-1])
        return ops.l2_normalize(pooled) if self.config.normalize else pooled


class PairHead(Module):
    """classifier(tanh(pooler(x))), then a sigmoid unless the checkpoint has none.

    tanh(x) is 2 sigmoid(2x) - 1, with the constants folded into the weights.
    """

    def __init__(self, checkpoint: Checkpoint, source: Source, hidden: int) -> None:
        num_labels = checkpoint.stored("classifier.weight").shape[0]
        if num_labels != 1:
            raise UnsupportedError(f"bert with a classifier of {num_labels} labels is not supported; only with one")
        pooler, classifier = source.at("pooler"), Source(checkpoint).at("classifier")
        self.pooler = Weight.from_tensor(2 * pooler.tensor("dense.weight", (hidden, hidden)))
        self.pooler_bias = 2 * pooler.tensor("dense.bias", (hidden,))
        weight = classifier.tensor("weight", (1, hidden))
        self.classifier = Weight.from_tensor(2 * weight)
        self.classifier_bias = classifier.tensor("bias", (1,)) - weight.sum()
        self.has_sigmoid = _has_sigmoid(checkpoint.metadata)

    def __call__(self, x: Tensor) -> Tensor:
        x = ops.activate(ops.linear(x, self.pooler, self.pooler_bias), "sigmoid")
        scores = ops.linear(x, self.classifier, self.classifier_bias)
        return ops.activate(scores, "sigmoid") if self.has_sigmoid else scores


class BertCrossEncoder(Bert):
    """A model from concatenated pairs of texts to one score each."""

    task = Task.SCORE
    ignores = ("cls.*", "*position_ids")

    def __init__(self, config: BertConfig, source: Source, head: PairHead) -> None:
        super().__init__(config, source)
        self.types = Embedding(
            source.at("embeddings"), "token_type_embeddings", config.type_vocab_size, config.hidden_size
        )
        self.head = head

    def parts(self) -> tuple[TextEmbedding, ...]:
        owner = type(self).__name__
        return (TextEmbedding(owner, self.max_positions, self.first_states, takes_pairs=True, head=self.head),)

    def first_states(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor, token_types: Tensor) -> Tensor:
        """Return the last hidden state [R, hidden] of every pair's first token, which the head reads."""
        x = self.encode(token_ids, positions, seq_start, self.types(token_types))
        return ops.gather_rows(x, seq_start[:-1])

    def score(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor, token_types: Tensor) -> Tensor:
        """Return one score [R, 1] per pair."""
        return self.head(self.first_states(token_ids, positions, seq_start, token_types))


def _has_sigmoid(config: Any) -> bool:
    """Return whether scores get a sigmoid: sentence-transformers states a class name, by default Sigmoid."""
    own = config.get("sentence_transformers")
    name = own.get("activation_fn") if isinstance(own, dict) else config.get("sbert_ce_default_activation_function")
    kind = str(name or "Sigmoid").rpartition(".")[2]
    if kind not in ("Sigmoid", "Identity"):
        raise UnsupportedError(f"bert with the score function {str(name)[:100]!r} is not supported")
    return kind == "Sigmoid"


def _sentence_head(config: Any) -> tuple[Pooling, bool]:
    """Return pooling and normalisation from sentence-transformers' files, which the loader merges under `sentence`."""
    sentence = section(config, "sentence")
    pooling = Pooling.CLS if sentence.get("pooling_mode_cls_token") else Pooling.MEAN
    return pooling, bool(sentence.get("normalize", True))


def _config_from_gguf(checkpoint: Checkpoint) -> BertConfig:
    keys = GGUFKeys(checkpoint)
    pooling = {1: Pooling.MEAN, 2: Pooling.CLS}.get(keys.get("pooling_type", 1))
    if pooling is None:
        raise UnsupportedError(
            f"bert with GGUF pooling type {keys.get('pooling_type')} is not supported; 1 mean, 2 cls"
        )
    return BertConfig(
        **keys.sizes(),
        norm_eps=keys.number("attention.layer_norm_epsilon"),
        type_vocab_size=checkpoint.stored("token_types.weight").shape[0],
        activation="gelu",
        pooling=pooling,
        normalize=True,
    )
