"""Operations that all computation runs on. Each has one signature and one meaning on every backend.

Each line below declares an operation by its reference implementation, which has its signature and docstring. A backend
implements it with a function of the same name; operations that a backend lacks run on the reference. `program` records
calls.
Letters in shapes: T tokens of all requests end to end, R requests, H hidden size, D head size, V vocabulary.
"""

from __future__ import annotations

from antiphon.ops import reference
from antiphon.ops.adapters import AdapterTable, AdapterUp, LayerAdapter
from antiphon.ops.batch import Batch, GroupBatch
from antiphon.ops.cache import CacheGroup, CacheKind, CacheLayout, KVCache, LayerCache, allocate_arena
from antiphon.ops.device import Device
from antiphon.ops.logit_edits import LogitEditRows, Penalties, TokenCounts, TokenLists, TokenMasks
from antiphon.ops.operation import declared_in, operation
from antiphon.ops.registry import (
    active_backend,
    available_backends,
    get_backend,
    half_type,
    invariant_backend,
    prepare_weights,
    stores_pages,
    use_backend,
)
from antiphon.ops.sound import frames, spectrum, vocoder
from antiphon.ops.types import (
    Activation,
    CountScale,
    Function,
    LSTMWeights,
    RotaryTable,
    SamplingRows,
    WeightForm,
    rounds_inputs,
)

#: Public names beside the operations.
__all__ = [
    "Activation", "AdapterTable", "AdapterUp", "Batch", "CacheGroup", "CacheKind", "CacheLayout", "CountScale",
    "Device", "Function", "GroupBatch", "KVCache", "LSTMWeights", "LayerAdapter", "LayerCache", "LogitEditRows",
    "Penalties", "RotaryTable", "SamplingRows", "TokenCounts", "TokenLists", "TokenMasks", "WeightForm",
    "active_backend", "allocate_arena", "available_backends", "get_backend", "half_type", "invariant_backend",
    "prepare_weights", "rounds_inputs", "stores_pages", "use_backend",
]  # fmt: skip

embed = operation(reference.product.embed)
linear = operation(reference.product.linear)
adapted_linear = operation(reference.product.adapted_linear)
rms_norm = operation(reference.rows.rms_norm)
layer_norm = operation(reference.rows.layer_norm)
rotary = operation(reference.rows.rotary)
store_kv = operation(reference.attention.store_kv)
paged_attention = operation(reference.attention.paged_attention)
paged_attention_weights = operation(reference.attention.paged_attention_weights)
attention = operation(reference.attention.attention)
conv1d = operation(reference.convolution.conv1d)
prepare_convolution = operation(reference.convolution.prepare_convolution)
conv_transpose1d = operation(reference.convolution.conv_transpose1d)
half_conv1d = operation(reference.convolution.half_conv1d)
half_conv_transpose1d = operation(reference.convolution.half_conv_transpose1d)
lstm = operation(reference.recurrent.lstm)
edit_logits = operation(reference.logits.edit_logits)
count_tokens = operation(reference.logits.count_tokens, tensor="slots")
sample = operation(reference.sampling.sample)
activate = operation(reference.activation.activate)
add = operation(reference.rows.add)
gather_rows = operation(reference.rows.gather_rows)
scatter_words = operation(reference.rows.scatter_words)
segment_mean = operation(reference.rows.segment_mean)
softmax_pool = operation(reference.rows.softmax_pool)
l2_normalize = operation(reference.rows.l2_normalize)

# Speech synthesis
mask_frames = operation(frames.mask_frames)
leaky_relu = operation(frames.leaky_relu)
modulate = operation(frames.modulate)
adaptive_norm = operation(frames.adaptive_norm)
concatenate = operation(frames.concatenate, tensor="parts[0]")
repeat_frames = operation(frames.repeat_frames)
prepend_mirrored = operation(frames.prepend_mirrored)
pad_rows = operation(frames.pad_rows)
pack_rows = operation(frames.pack_rows)
expand_frames = operation(frames.expand_frames)
frame_counts = operation(frames.frame_counts)
harmonic_source = operation(spectrum.harmonic_source)
harmonic_spectrum = operation(spectrum.harmonic_spectrum)
inverse_spectrum = operation(spectrum.inverse_spectrum)
log_pitch = operation(spectrum.log_pitch)
pulse_noise_vocoder = operation(vocoder.pulse_noise_vocoder)

#: All operations by name.
OPERATIONS = declared_in(globals())
