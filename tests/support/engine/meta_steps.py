"""Steps of a model on the meta device: their launches can be inspected, but nothing runs."""

from __future__ import annotations

from typing import Any

import torch

from antiphon.bench.random_models.random_model import SHAPES, RandomCheckpoint
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, KVCache
from antiphon.ops.program import Recording
from antiphon.ops.triton.weights import MATRIX

DEVICE = torch.device("meta")


def meta_model(shape: str = "smollm2-135m", **changes: Any) -> CausalLM:
    """Build a bf16 model of a shape on the meta device, with changes to its config."""
    model = build_model(RandomCheckpoint(SHAPES[shape] | changes, device="meta"))
    assert isinstance(model, CausalLM)
    model.place(DEVICE)
    for weight in model.weights():
        weight.packed[MATRIX] = torch.empty(weight.rows, weight.columns, dtype=torch.bfloat16, device=DEVICE)
    return model


def meta_recording(model: CausalLM, max_rows: int, max_tokens: int) -> tuple[Recording, DeviceRows]:
    """Record the model's step; return the recording and its rows."""
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, 16, torch.bfloat16, torch.bfloat16) for group in model.cache_groups()]
    cache = KVCache(torch.empty(1 << 20, dtype=torch.uint8, device=DEVICE), layouts, model.key_balance)
    return make_recording(decoder.step(cache)), DeviceRows(max_rows, layouts, [max_tokens] * len(layouts), DEVICE)
