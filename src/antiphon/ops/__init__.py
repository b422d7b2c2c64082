"""The operations everything runs on. One signature each; backends never differ in meaning.

Letters in shapes: T tokens of all requests end to end, R requests, H hidden size, D head size, V vocabulary.
`reference` is the oracle; `tests/ops/test_conformance.py` holds every backend to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from antiphon.ops.backend import active_backend, available_backends, dispatch, get_backend, use_backend
from antiphon.ops.batch import Batch, GroupBatch
from antiphon.ops.cache import CacheGroup, CacheKind, CacheLayout, KVCache, LayerCache, allocate_arena
from antiphon.ops.types import Activation, LSTMWeights, RotaryTable, SamplingRows, WeightForm
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

__all__ = [
    "Activation", "Batch", "CacheGroup", "CacheKind", "CacheLayout", "GroupBatch", "KVCache", "LSTMWeights",
    "LayerCache", "RotaryTable", "SamplingRows", "WeightForm", "active_backend", "add", "allocate_arena", "attention",
    "available_backends", "conv1d", "conv_transpose1d", "embed", "gather_rows", "get_backend", "l2_normalize",
    "layer_norm", "linear", "lstm", "paged_attention", "paged_attention_weights", "prepare_weights", "rms_norm",
    "rotary", "sample", "segment_mean", "store_kv", "use_backend",
]  # fmt: skip


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
) -> list[WeightForm]:
    """Bring weights into the form the active backend computes with, and say what became of them.

    `repack` allows a copy in another order; `quantize` names the type that a weight's floats shall become, if any;
    `release_pages` is called when the files' bytes that were read are no longer needed.
    """
    return active_backend().prepare_weights(weights, repack, quantize, release_pages)


def embed(ids: Tensor, weight: Weight, scale: float = 1.0) -> Tensor:
    """Rows of the weight for ids [T], times `scale` → fp32 [T, H]. Ids must lie within the weight's rows."""
    return dispatch("embed", ids)(ids, weight, scale)


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
) -> Tensor:
    """activation(x [T, K] · weightᵀ + bias) + residual → [T, N], or [T, N / 2] for a gated activation."""
    return dispatch("linear", x)(x, weight, bias, activation, residual)


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(norm(x + residual) * weight, x + residual) over the last dimension, computed in fp32."""
    return dispatch("rms_norm", x)(x, weight, eps, residual)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(norm(x + residual) * weight + bias, x + residual) over the last dimension, computed in fp32."""
    return dispatch("layer_norm", x)(x, weight, bias, eps, residual)


def rotary(q: Tensor, k: Tensor, positions: Tensor, table: RotaryTable) -> tuple[Tensor, Tensor]:
    """q [T, heads, D] and k [T, kv_heads, D] turned by their positions [T] or [A, T], half-split layout."""
    return dispatch("rotary", q)(q, k, positions, table)


def store_kv(k: Tensor, v: Tensor, cache: LayerCache, group: GroupBatch) -> None:
    """Write k, v [T, kv_heads, D] to the slots of the group; tokens with a negative slot are left out."""
    dispatch("store_kv", k)(k, v, cache, group)


def paged_attention(
    q: Tensor,
    cache: LayerCache,
    group: GroupBatch,
    scale: float,
    causal: bool = True,
    window: int | None = None,
    sinks: Tensor | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    sink_tokens: int = 0,
) -> Tensor:
    """Attention of q [T, heads, D] over the pages → [T, heads, D]; chunks and single tokens mix in one call.

    Request r's queries stand at the end of its seq_lens[r] cached tokens. A query sees the last `window` tokens up to
    itself, and with a window also the first `sink_tokens`; blocks that lie between may be freed. `sinks` [heads] are
    extra logits with no value; `bias` [heads, max_seq, max_seq] is added by position.
    """
    return dispatch("paged_attention", q)(q, cache, group, scale, causal, window, sinks, softcap, bias, sink_tokens)


def paged_attention_weights(
    q: Tensor, cache: LayerCache, group: GroupBatch, scale: float, heads: Sequence[int], causal: bool = False
) -> Tensor:
    """Probabilities [len(heads), T, longest seq_len] that the given heads' queries put on the pages; 0 past the end."""
    return dispatch("paged_attention_weights", q)(q, cache, group, scale, heads, causal)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seq_start: Tensor,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
) -> Tensor:
    """Attention without a cache over sequences seq_start [R + 1] laid end to end → [T, heads, D]."""
    return dispatch("attention", q)(q, k, v, seq_start, scale, causal, bias)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
    activation: Activation = "none",
    state: Tensor | None = None,
) -> Tensor:
    """Convolution of x [B, T, C_in] with weight [C_out, C_in / groups, kernel] → [B, T', C_out], contiguous.

    `state` [B, S, C_in] is the end of what came before: it stands in front of x and is then overwritten with
    the last S inputs, so that chunks give what the whole would.
    """
    return dispatch("conv1d", x)(x, weight, bias, stride, padding, dilation, groups, activation, state)


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    state: Tensor | None = None,
) -> Tensor:
    """Transposed convolution of x [B, T, C_in] with weight [C_in, C_out / groups, kernel] → [B, T', C_out].

    `state` [B, kernel - stride, C_out] is the unfinished tail of what came before: it is added to the start, and
    then holds this call's tail. With a state, T' is T * stride and both paddings must be 0.
    """
    return dispatch("conv_transpose1d", x)(x, weight, bias, stride, padding, output_padding, groups, state)


def lstm(
    x: Tensor,
    lengths: Tensor,
    forward: LSTMWeights,
    backward: LSTMWeights | None = None,
    state: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """One LSTM layer over x [B, T, I] → [B, T, hidden], or [B, T, 2 * hidden] with a backward direction.

    Row b has lengths[b] >= 1 frames; what lies beyond gives zeros and does not touch the state.
    `state` (h, c), each [directions, B, hidden], is read and then overwritten.
    """
    return dispatch("lstm", x)(x, lengths, forward, backward, state)


def sample(logits: Tensor, rows: SamplingRows) -> tuple[Tensor, Tensor]:
    """One token per row of logits [R, V] → (tokens int64 [R], their log-probabilities under the raw logits [R]).

    Gumbel-max with Philox noise: a row's token depends on its own logits, parameters, seed and index alone.
    """
    return dispatch("sample", logits)(logits, rows)


def add(x: Tensor, y: Tensor) -> Tensor:
    """x + y, broadcast."""
    return dispatch("add", x)(x, y)


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows] for x [T, H] and rows [L] → [L, H]."""
    return dispatch("gather_rows", x)(x, rows)


def segment_mean(x: Tensor, seq_start: Tensor) -> Tensor:
    """Mean of x [T, H] over each sequence of seq_start [R + 1] → fp32 [R, H]. No sequence may be empty."""
    return dispatch("segment_mean", x)(x, seq_start)


def l2_normalize(x: Tensor) -> Tensor:
    """Rows of x [R, H] scaled to length 1, in fp32."""
    return dispatch("l2_normalize", x)(x)
