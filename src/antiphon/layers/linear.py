"""Linear layers and embeddings over weights in their stored form."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.module import Module
from antiphon.ops import Activation, AdapterTable, Batch
from antiphon.weights.source import Source
from antiphon.weights.weight import Weight


class Linear(Module):
    """A product x [T, inputs] → [T, outputs]. Several names are fused into one product, with their rows in order."""

    def __init__(
        self,
        source: Source,
        names: str | Sequence[str],
        inputs: int,
        outputs: int | Sequence[int],
        bias: bool = False,
        activation: Activation = "none",
    ) -> None:
        names = [names] if isinstance(names, str) else list(names)
        sizes = [outputs] if isinstance(outputs, int) else list(outputs)
        pairs = list(zip(names, sizes, strict=True))
        self.weight = Weight.concatenate(source.weight(f"{name}.weight", (size, inputs)) for name, size in pairs)
        self.bias = torch.cat([self._bias(source, name, size) for name, size in pairs]) if bias else None
        self.activation: Activation = activation
        #: Model's own names of the fused layers, and the number of rows of each, in order.
        self.fused = tuple((source.full_name(name), size) for name, size in pairs)
        #: Adapters of this layer, by slot.
        self.adapters = AdapterTable(self.weight.rows)

    @staticmethod
    def _bias(source: Source, name: str, size: int) -> Tensor:
        """Return a layer's bias, or zeros for a fused layer without bias (Whisper's keys)."""
        return source.tensor(f"{name}.bias", (size,)) if source.has(f"{name}.bias") else torch.zeros(size)

    def __call__(self, x: Tensor, residual: Tensor | None = None, adapters: Tensor | None = None) -> Tensor:
        """Return the product plus residual; `adapters` are the slots of the tokens' adapters, as in `Batch`."""
        if adapters is None:
            return ops.linear(x, self.weight, self.bias, self.activation, residual)
        return ops.adapted_linear(x, self.weight, self.adapters, adapters, self.bias, self.activation, residual)


class Embedding(Module):
    """An embedding ids [T] → [T, width], times a constant scale."""

    def __init__(self, source: Source, name: str, entries: int, width: int, scale: float = 1.0) -> None:
        self.weight = source.weight(f"{name}.weight", (entries, width))
        self.scale = scale

    def __call__(self, ids: Tensor) -> Tensor:
        return ops.embed(ids, self.weight, self.scale)

    def inputs(self, batch: Batch) -> Tensor:
        """Return the first layer's input: the batch's embeddings if it has any, else those of its tokens."""
        if batch.embeds is not None:
            return batch.embeds
        assert batch.token_ids is not None
        return self(batch.token_ids)


class Head(Module):
    """Output product over the vocabulary; a checkpoint without a weight for it shares the embedding's.

    Logits have 32 bits for any compute type.
    """

    out_type: torch.dtype | None = None

    def __init__(self, source: Source, name: str, embedding: Embedding) -> None:
        own = source.has(f"{name}.weight")
        self.weight = source.weight(f"{name}.weight", embedding.weight.shape) if own else embedding.weight

    def set_compute_type(self, dtype: torch.dtype | None) -> None:
        self.out_type = None if dtype is None else torch.float32

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, None, "none", None, self.out_type)
