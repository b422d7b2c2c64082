"""The operations everything runs on. One signature each; backends never differ in meaning.

Letters in shapes: T tokens of all requests end to end, R requests, H hidden size, D head size, V vocabulary.
`reference` is the oracle; `tests/ops/test_conformance.py` holds every backend to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from antiphon.ops.backend import active_backend, available_backends, dispatch, get_backend, use_backend
from antiphon.ops.batch import Batch, GroupBatch
from antiphon.ops.cache import CacheGroup, CacheKind, CacheLayout, KVCache, LayerCache, allocate_arena
from antiphon.ops.types import Activation, CountScale, Function, LSTMWeights, RotaryTable, SamplingRows, WeightForm
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

__all__ = [
    "Activation", "Batch", "CacheGroup", "CacheKind", "CacheLayout", "CountScale", "Function", "GroupBatch",
    "KVCache", "LSTMWeights", "LayerCache", "RotaryTable", "SamplingRows", "WeightForm", "activate", "active_backend",
    "adaptive_norm", "add", "allocate_arena", "attention", "available_backends", "concatenate", "conv1d",
    "conv_transpose1d", "embed", "expand_frames", "frame_counts", "gather_rows", "get_backend", "half_conv1d",
    "half_conv_transpose1d", "half_type", "harmonic_source",
    "harmonic_spectrum", "inverse_spectrum", "l2_normalize", "layer_norm", "leaky_relu", "linear", "log_pitch",
    "lstm", "mask_frames", "modulate", "pack_rows", "pad_rows", "paged_attention", "paged_attention_weights",
    "prepare_convolution", "prepare_weights", "prepend_mirrored", "pulse_noise_vocoder", "repeat_frames", "rms_norm",
    "rotary", "rounds_inputs", "sample", "segment_mean", "store_kv", "use_backend",
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


def half_type() -> torch.dtype | None:
    """The 16-bit type that `half_conv1d` and its like compute in here; None where they compute in 32 bits."""
    return active_backend().half_type()


def rounds_inputs(weight: Weight) -> bool:
    """Whether products with the weight round what they multiply it with to int8, as those with packed weights do."""
    return any(getattr(form, "is_packed", False) for form in weight.packed.values())


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
    rounded: bool = False,
) -> Tensor:
    """Attention without a cache over sequences seq_start [R + 1] laid end to end → [T, heads, D].

    `rounded` lets a backend round what it multiplies to int8 or 16 bits.
    """
    return dispatch("attention", q)(q, k, v, seq_start, scale, causal, bias, rounded)


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


def half_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    activation: Activation = "none",
    residual: Tensor | None = None,
    narrow: bool = False,
) -> Tensor:
    """activation(x [B, T, C_in] convolved + bias) + residual, where a backend may compute in 16-bit floats.

    It may round x and the weight to them, and add up to 128 products in them. x may come in them. The result is fp32;
    with `narrow` it may be in 16 bits.
    """
    return dispatch("half_conv1d", x)(x, weight, bias, stride, padding, dilation, activation, residual, narrow)


def half_conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    """`conv_transpose1d` where a backend may compute in 16-bit floats, as in `half_conv1d`."""
    return dispatch("half_conv_transpose1d", x)(x, weight, bias, stride, padding)


def prepare_convolution(weight: Tensor, stride: int = 1, groups: int = 1) -> None:
    """Make whatever `conv1d` keeps of a weight [C_out, C_in / groups, kernel] now; it changes no result."""
    dispatch("prepare_convolution", weight)(weight, stride, groups)


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


def sample(logits: Tensor, rows: SamplingRows, logprobs: bool = True) -> tuple[Tensor, Tensor | None]:
    """One token per row of logits [R, V] → (tokens int64 [R], their log-probabilities under the raw logits [R]).

    Without `logprobs` these are left out, which spares a pass over the logits.

    Gumbel-max with Philox noise: a row's token depends on its own logits, parameters, seed and index alone.
    """
    return dispatch("sample", logits)(logits, rows, logprobs)


def activate(x: Tensor, function: Activation | Function) -> Tensor:
    """A function of every element of x [..., C]. A gate, and `magnitude`, the length of (x[..., i], x[..., C / 2 + i]),
    halve C."""
    return dispatch("activate", x)(x, function)


def add(x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
    """(x + y) * scale, broadcast."""
    return dispatch("add", x)(x, y, scale)


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows] for x [T, H] and rows [L] → [L, H]."""
    return dispatch("gather_rows", x)(x, rows)


def segment_mean(x: Tensor, seq_start: Tensor) -> Tensor:
    """Mean of x [T, H] over each sequence of seq_start [R + 1] → fp32 [R, H]. No sequence may be empty."""
    return dispatch("segment_mean", x)(x, seq_start)


def l2_normalize(x: Tensor) -> Tensor:
    """Rows of x [R, H] scaled to length 1, in fp32."""
    return dispatch("l2_normalize", x)(x)


# Speech synthesis. Frames of B utterances are padded to one length, [B, T, C]; `lengths` [B] counts those that are
# there. What lies beyond is ignored on the way in and, where a result is masked, zero on the way out.


def mask_frames(x: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, C] with the frames beyond each row's length set to zero."""
    return dispatch("mask_frames", x)(x, lengths)


def leaky_relu(x: Tensor, slope: float, lengths: Tensor) -> Tensor:
    """x [B, T, C] where it is positive, slope * x elsewhere; masked."""
    return dispatch("leaky_relu", x)(x, slope, lengths)


def modulate(x: Tensor, scale: Tensor, shift: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, C] * scale [B, C] + shift [B, C]; masked."""
    return dispatch("modulate", x)(x, scale, shift, lengths)


def adaptive_norm(
    x: Tensor,
    lengths: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    slope: float | None = None,
    alpha: Tensor | None = None,
    half: bool = False,
) -> Tensor:
    """Every channel of x [B, T, C] brought to mean 0 and variance 1 over its own row's frames, * scale + shift [B, C].

    Then, where given, a leaky ReLU with `slope`, or alpha * y + sin²(alpha * y) with alpha [C], which is alpha times
    the "snake" activation; masked. With `half` the result may be in 16 bits, as `half_conv1d` takes it.
    """
    return dispatch("adaptive_norm", x)(x, lengths, scale, shift, eps, slope, alpha, half)


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Tensors side by side in their last dimension."""
    return dispatch("concatenate", parts[0])(parts)


def repeat_frames(x: Tensor, times: int) -> Tensor:
    """Every frame of x [B, T, C] `times` times → [B, T * times, C]."""
    return dispatch("repeat_frames", x)(x, times)


def prepend_mirrored(x: Tensor) -> Tensor:
    """x [B, T, C] with its second frame once more in front → [B, T + 1, C]."""
    return dispatch("prepend_mirrored", x)(x)


def pad_rows(x: Tensor, seq_start: Tensor) -> Tensor:
    """Sequences seq_start [B + 1] of x [T, C], laid end to end, padded with zeros to the longest → [B, longest, C]."""
    return dispatch("pad_rows", x)(x, seq_start)


def pack_rows(x: Tensor, lengths: Tensor) -> Tensor:
    """The frames of x [B, T, C] that are there, end to end → [sum(lengths), C]."""
    return dispatch("pack_rows", x)(x, lengths)


def expand_frames(x: Tensor, counts: Tensor) -> Tensor:
    """Frame t of row b of x [B, T, C] counts[b, t] times → [B, longest sum, C]; masked."""
    return dispatch("expand_frames", x)(x, counts)


def frame_counts(logits: Tensor, lengths: Tensor, speed: Tensor, scale: CountScale) -> Tensor:
    """round(frames of logits [B, T, D] on that scale / speed [B]), at least 1 → int64 [B, T]; 0 beyond the lengths."""
    return dispatch("frame_counts", logits)(logits, lengths, speed, scale)


def harmonic_source(
    pitch: Tensor, lengths: Tensor, weight: Tensor, bias: Tensor, hop: int, rate: int, threshold: float, gain: float
) -> Tensor:
    """tanh(bias + weight [H] · sines of the first H harmonics) of pitch [B, T] in Hz → [B, T * hop] samples; masked.

    The phase runs on through the row, linear between the middles of frames; where pitch is at most `threshold` the
    sines, of amplitude `gain`, are left out.
    """
    operation = dispatch("harmonic_source", pitch)
    return operation(pitch, lengths, weight, bias, hop, rate, threshold, gain)


def harmonic_spectrum(source: Tensor, lengths: Tensor, basis: Tensor, hop: int) -> Tensor:
    """Magnitudes, then phases, of source [B, N] around every `hop`-th sample → [B, N / hop + 1, bins]; masked.

    `basis` [bins, 1, width] holds the windowed cosines, then the sines; rows are mirrored at both of their ends.
    `lengths` counts samples.
    """
    return dispatch("harmonic_spectrum", source)(source, lengths, basis, hop)


def inverse_spectrum(x: Tensor, lengths: Tensor, basis: Tensor, edge: Tensor, hop: int) -> Tensor:
    """Samples [B, (T - 1) * hop] of frames x [B, T, bins] that hold log magnitudes, then what sin() makes phases of.

    Overlapping frames of `basis` [bins, 1, width] are added up. The first samples are divided by `edge` [width], and
    half a width is cut off at both ends.
    """
    return dispatch("inverse_spectrum", x)(x, lengths, basis, edge, hop)


def log_pitch(pitch: Tensor, scale: float) -> Tensor:
    """log(1 + pitch) * scale, and 0 where pitch is negative."""
    return dispatch("log_pitch", pitch)(pitch, scale)


def pulse_noise_vocoder(
    spectra: Tensor, pitch: Tensor, noise: Sequence[Tensor], lengths: Tensor, width: int, hop: int, rate: int
) -> Tensor:
    """Samples [B, T * hop] of three spectra in one: filtered pulses at the pitch, shaped noise, and a free part.

    `spectra` [B, T, 5 * bins] are log magnitude and turn of the filter, log magnitude of the noise, log magnitude and
    phase of the free part; pitch [B, T] in Hz is unvoiced below 40; noise is complex [bins, T] or longer for each row.
    Frames have `width` samples under a Hann window and stand `hop` apart; bins = width / 2 + 1.
    """
    operation = dispatch("pulse_noise_vocoder", spectra)
    return operation(spectra, pitch, noise, lengths, width, hop, rate)
