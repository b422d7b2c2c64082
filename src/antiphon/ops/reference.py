"""Every operation in plain PyTorch: any device, any size, no cleverness. The oracle that other backends are held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.pages import read_pages, write_pages
from antiphon.ops.philox import uniform
from antiphon.ops.reference_sound import (  # noqa: F401  (operations, found here by their names)
    adaptive_norm,
    concatenate,
    expand_frames,
    frame_counts,
    harmonic_source,
    harmonic_spectrum,
    inverse_spectrum,
    leaky_relu,
    log_pitch,
    mask_frames,
    modulate,
    pack_rows,
    pad_rows,
    prepend_mirrored,
    pulse_noise_vocoder,
    repeat_frames,
)
from antiphon.ops.types import Activation, Function, LSTMWeights, RotaryTable, SamplingRows, WeightForm
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

BF16_PACK = "reference.bf16"


def dense(weight: Weight) -> Tensor:
    """The weight as one float matrix [rows, columns]: bf16 where it was packed so, else decoded exactly to fp32."""
    packed = weight.packed.get(BF16_PACK)
    if packed is not None:
        return packed
    parts = [dequantize(part.data, part.type).view(part.rows, weight.columns) for part in weight.parts]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def pack_bf16(weight: Weight) -> None:
    """Decode once, to bf16: what a machine without a native backend computes with."""
    if BF16_PACK not in weight.packed:
        weight.packed[BF16_PACK] = dense(weight).to(torch.bfloat16)
        weight.release_parts()


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
) -> list[WeightForm]:
    """Decode every weight to bf16. There is nothing to repack, and quantising is the native backend's to do."""
    forms = []
    for weight in weights:
        if quantize(weight) is not None:
            raise UnsupportedError("weights are quantised by the native backend, which was not built on this machine")
        parts = weight.parts
        pack_bf16(weight)
        for part in parts:
            size = part.rows * weight.columns * 2
            forms.append(WeightForm(part.type, part.data.numel(), size, quantized=TensorType.BF16))
    release_pages()
    return forms


def embed(ids: Tensor, weight: Weight, scale: float = 1.0) -> Tensor:
    packed = weight.packed.get(BF16_PACK)
    if packed is not None:
        return packed[ids.long()].float() * scale
    out = torch.empty(len(ids), weight.columns, device=ids.device)
    start = 0
    for part in weight.parts:
        mine = (ids >= start) & (ids < start + part.rows)
        rows = part.data[(ids[mine] - start).long()]
        out[mine] = dequantize(rows, part.type).view(-1, weight.columns)
        start += part.rows
    return out * scale if scale != 1.0 else out


def activate(y: Tensor, activation: Activation | Function) -> Tensor:
    match activation:
        case "none":
            return y
        case "relu":
            return F.relu(y)
        case "gelu":
            return F.gelu(y)
        case "gelu_tanh":
            return F.gelu(y, approximate="tanh")
        case "silu":
            return F.silu(y)
        case "silu_gate":
            gate, value = y.chunk(2, dim=-1)
            return F.silu(gate) * value
        case "gelu_tanh_gate":
            gate, value = y.chunk(2, dim=-1)
            return F.gelu(gate, approximate="tanh") * value
        case "sigmoid":
            return torch.sigmoid(y)
        case "magnitude":
            real, imaginary = y.chunk(2, dim=-1)
            return (real.square() + imaginary.square()).sqrt_()
    raise ValueError(f"unknown activation {activation!r}")


def finish_linear(y: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None) -> Tensor:
    """The epilogue of a product: bias, activation, residual, in that order."""
    if bias is not None:
        y = y + bias
    y = activate(y, activation)
    return y if residual is None else y + residual


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
) -> Tensor:
    matrix = dense(weight)
    y = (x.to(matrix.dtype) @ matrix.T).to(x.dtype)
    return finish_linear(y, bias, activation, residual)


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    if residual is not None:
        x = x + residual
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (y * weight).to(x.dtype), x


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    if residual is not None:
        x = x + residual
    y = F.layer_norm(x.float(), (x.shape[-1],), weight, bias, eps)
    return y.to(x.dtype), x


def rotary(q: Tensor, k: Tensor, positions: Tensor, table: RotaryTable) -> tuple[Tensor, Tensor]:
    rows = table.values[positions.long()]  # [T, rotated] or [A, T, rotated]
    half = rows.shape[-1] // 2
    cos, sin = rows[..., :half], rows[..., half:]
    if positions.dim() == 2:
        assert table.axis is not None
        channel = torch.arange(half, device=rows.device)
        cos, sin = cos[table.axis, :, channel].T, sin[table.axis, :, channel].T
    cos, sin = cos[:, None, :], sin[:, None, :]  # [T, 1, rotated / 2]

    def rotate(x: Tensor) -> Tensor:
        first, second, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
        turned = (first * cos - second * sin, second * cos + first * sin)
        return torch.cat([part.to(x.dtype) for part in turned] + [rest], dim=-1)

    return rotate(q), rotate(k)


def store_kv(k: Tensor, v: Tensor, cache: LayerCache, group: GroupBatch) -> None:
    write_pages(k, v, cache, group.slot_mapping)


def _scores(
    q: Tensor,
    k: Tensor,
    scale: float,
    visible: Tensor | None,
    softcap: float | None,
    bias: Tensor | None,
) -> Tensor:
    """Masked scores [heads, queries, keys] of q [queries, heads, dim] against k [keys, kv_heads, dim], in fp32."""
    k = k.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Probabilities over keys; a sink is one more logit per head that takes probability and gives no value."""
    if sinks is None:
        return scores.softmax(-1)
    column = sinks.float().view(-1, 1, 1).expand(scores.shape[0], scores.shape[1], 1)
    return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]


def _attend(probabilities: Tensor, v: Tensor, q: Tensor) -> Tensor:
    v = v.float().repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    return torch.einsum("hqk,khd->qhd", probabilities, v).to(q.dtype)


def _visible(
    num_queries: int, key: Tensor, length: int, causal: bool, window: int | None = None, sink_tokens: int = 0
) -> Tensor | None:
    """Which of the keys at the given positions each of the last queries of `length` sees; None where all see all."""
    if not causal and window is None:
        return None
    query = torch.arange(length - num_queries, length, device=key.device)[:, None]
    visible = key <= query if causal else torch.ones(num_queries, len(key), dtype=torch.bool, device=key.device)
    return visible if window is None else visible & ((key > query - window) | (key < sink_tokens))


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
    out = torch.empty_like(q)
    starts, lengths = group.query_start.tolist(), group.seq_lens.tolist()
    for row, length in enumerate(lengths):
        queries = q[starts[row] : starts[row + 1]]
        if not len(queries):
            continue
        first = 0 if window is None else max(0, length - len(queries) - window + 1)
        key = torch.arange(first, length, device=q.device)
        k, v = read_pages(cache, group.block_tables[row], first, length)
        sink_end = min(sink_tokens, first)
        if sink_end:
            sink_k, sink_v = read_pages(cache, group.block_tables[row], 0, sink_end)
            k, v = torch.cat([sink_k, k]), torch.cat([sink_v, v])
            key = torch.cat([torch.arange(sink_end, device=q.device), key])
        visible = _visible(len(queries), key, length, causal, window, sink_tokens)
        own_bias = None if bias is None else bias[:, length - len(queries) : length, key]
        scores = _scores(queries, k, scale, visible, softcap, own_bias)
        out[starts[row] : starts[row + 1]] = _attend(_softmax(scores, sinks), v, queries)
    return out


def paged_attention_weights(
    q: Tensor, cache: LayerCache, group: GroupBatch, scale: float, heads: Sequence[int], causal: bool = False
) -> Tensor:
    starts, lengths = group.query_start.tolist(), group.seq_lens.tolist()
    out = torch.zeros(len(heads), len(q), max(lengths, default=0), device=q.device)
    for row, length in enumerate(lengths):
        queries = q[starts[row] : starts[row + 1]]
        k, _ = read_pages(cache, group.block_tables[row], 0, length)
        visible = _visible(len(queries), torch.arange(length, device=q.device), length, causal)
        probabilities = _scores(queries, k, scale, visible, None, None).softmax(-1)
        out[:, starts[row] : starts[row + 1], :length] = probabilities[list(heads)]
    return out


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
    out = torch.empty_like(q)
    starts = seq_start.tolist()
    for start, end in pairwise(starts):
        length = end - start
        visible = _visible(length, torch.arange(length, device=q.device), length, causal)
        own_bias = None if bias is None else bias[:, :length, :length]
        scores = _scores(q[start:end], k[start:end], scale, visible, None, own_bias)
        out[start:end] = _attend(scores.softmax(-1), v[start:end], q[start:end])
    return out


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
    if state is not None:
        x = torch.cat([state, x], dim=1)
        state.copy_(x[:, x.shape[1] - state.shape[1] :])
    channels_first = F.pad(x.transpose(1, 2), padding)
    y = F.conv1d(channels_first, weight, bias, stride=stride, dilation=dilation, groups=groups)
    return activate(y.transpose(1, 2), activation).contiguous()


def half_type() -> torch.dtype | None:
    return None


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
    y = conv1d(x.float(), weight, bias, stride, padding, dilation, activation=activation)
    return y if residual is None else y + residual


def half_conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    return conv_transpose1d(x.float(), weight, bias, stride, padding)


def prepare_convolution(weight: Tensor, stride: int = 1, groups: int = 1) -> None:
    pass


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
    channels_first = x.transpose(1, 2)
    if state is None:
        y = F.conv_transpose1d(channels_first, weight, bias, stride, padding, output_padding, groups)
        return y.transpose(1, 2).contiguous()
    y = F.conv_transpose1d(channels_first, weight, None, stride, groups=groups).transpose(1, 2).contiguous()
    tail = state.shape[1]
    y[:, :tail] += state
    state.copy_(y[:, y.shape[1] - tail :])
    y = y[:, : y.shape[1] - tail]
    return y if bias is None else y + bias


def lstm(
    x: Tensor,
    lengths: Tensor,
    forward: LSTMWeights,
    backward: LSTMWeights | None = None,
    state: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    directions = [forward] if backward is None else [forward, backward]
    hidden = forward.hidden.shape[1]
    parameters = [p for d in directions for p in (d.input, d.hidden, d.input_bias, d.hidden_bias)]
    if state is None:
        zeros = x.new_zeros(len(directions), len(x), hidden)
        state = (zeros, zeros.clone())
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.cpu().long(), batch_first=True, enforce_sorted=False)
    order = packed.sorted_indices
    initial = [s if order is None else s.index_select(1, order) for s in state]
    data, h, c = torch.lstm(
        packed.data, packed.batch_sizes, initial, parameters, True, 1, 0.0, False, backward is not None
    )
    if packed.unsorted_indices is not None:
        h, c = h.index_select(1, packed.unsorted_indices), c.index_select(1, packed.unsorted_indices)
    state[0].copy_(h)
    state[1].copy_(c)
    repacked = torch.nn.utils.rnn.PackedSequence(data, packed.batch_sizes, order, packed.unsorted_indices)
    return torch.nn.utils.rnn.pad_packed_sequence(repacked, batch_first=True, total_length=x.shape[1])[0]


def add(x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
    return x + y if scale == 1.0 else (x + y).mul_(scale)


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    return x[rows.long()]


def segment_mean(x: Tensor, seq_start: Tensor) -> Tensor:
    starts = seq_start.tolist()
    return torch.stack([x[start:end].float().mean(0) for start, end in pairwise(starts)])


def l2_normalize(x: Tensor) -> Tensor:
    return F.normalize(x.float(), dim=-1)


def _keep(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Scaled logits with what top-k, then top-p, then min-p removes set to -inf."""
    vocab = logits.shape[-1]
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(vocab, device=logits.device)[None, :]
    top_k = torch.where(rows.top_k > 0, rows.top_k, vocab)[:, None]
    ordered = ordered.masked_fill(rank >= top_k, float("-inf"))
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    drop = (before >= rows.top_p[:, None]) | (probabilities < rows.min_p[:, None] * probabilities[:, :1])
    drop[:, 0] = False
    return torch.empty_like(logits).scatter_(-1, order, ordered.masked_fill(drop, float("-inf")))


def sample(logits: Tensor, rows: SamplingRows, logprobs: bool = True) -> tuple[Tensor, Tensor | None]:
    logits = logits.float()
    tokens = logits.argmax(-1)
    random = (rows.temperature > 0).nonzero().squeeze(-1)
    if len(random):
        own = SamplingRows(*(getattr(rows, name)[random] for name in SamplingRows.__dataclass_fields__))
        scaled = logits[random] / own.temperature[:, None]
        if bool(((own.top_k > 0) | (own.top_p < 1) | (own.min_p > 0)).any()):
            scaled = _keep(scaled, own)
        noise = -torch.log(-torch.log(uniform(own.seed, own.index, logits.shape[-1])))
        tokens[random] = (scaled + noise).argmax(-1)
    return tokens, logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1) if logprobs else None
