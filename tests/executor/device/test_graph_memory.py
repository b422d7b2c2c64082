"""Steps of every size fit their workspace; nothing runs."""

from __future__ import annotations

import pytest
import torch

from antiphon.bench.random_model import SHAPES, RandomCheckpoint
from antiphon.executor.device.buckets import row_bucket, split_count
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, KVCache
from antiphon.ops.program import Recording
from antiphon.ops.triton.weights import MATRIX

pytest.importorskip("triton")


def on_meta(kv_heads: int, max_rows: int) -> tuple[Recording, DeviceRows]:
    """The recording of a model without weights, and its rows."""
    shape = SHAPES["smollm2-135m"] | {"num_hidden_layers": 2, "num_key_value_heads": kv_heads}
    model = build_model(RandomCheckpoint(shape, device="meta"))
    assert isinstance(model, CausalLM)
    device = torch.device("meta")
    model.place(device)
    for weight in model.weights():
        weight.packed[MATRIX] = torch.empty(weight.rows, weight.columns, dtype=torch.bfloat16, device=device)
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, 16, torch.bfloat16, torch.bfloat16) for group in model.cache_groups()]
    cache = KVCache(torch.empty(1 << 20, dtype=torch.uint8, device="meta"), layouts, model.key_balance)
    store = DeviceRows(max_rows, layouts, [4096] * len(layouts), device)
    return make_recording(decoder.step(cache)), store


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("max_rows", [1, 20, 64])
def test_every_size_has_its_workspace(kv_heads: int, max_rows: int) -> None:
    from antiphon.executor.device.graphs import DecodeGraphs
    from antiphon.ops.triton.program.choice import Draw

    recording, store = on_meta(kv_heads, max_rows)
    graphs = DecodeGraphs(recording, store, max_rows, 2048, torch.bfloat16)
    buckets = {row_bucket(rows, max_rows) for rows in range(1, max_rows + 1)}
    for rows in sorted(buckets):
        for splits in sorted({split_count(rows, kv_heads, longest) for longest in range(1, 4096, 16)}):
            for draw in Draw:
                graphs._make(rows, splits, draw)


@pytest.mark.parametrize("max_tokens", [256, 512, 2048])
@pytest.mark.parametrize("max_rows", [16, 256])
def test_every_size_of_prompts_has_its_workspace(max_rows: int, max_tokens: int) -> None:
    from antiphon.executor.device.batch import StepSize
    from antiphon.executor.device.forward_graphs import REQUEST_SIZES, token_sizes
    from antiphon.executor.device.prompt_steps import PromptSteps

    recording, store = on_meta(3, max_rows)
    steps = PromptSteps(recording, store, max_rows, max_tokens + max_rows, torch.bfloat16)
    room = token_sizes(max_tokens + max_rows)
    # The residual stream, and the two halves of a gated layer with their product, for each token; logits.
    least = room[-1] * (576 * 4 + 3 * 1536 * 2)
    assert least < steps.workspace_bytes < 1.5 * (least + max_rows * 49152 * 4)
    for tokens in room:
        for requests in REQUEST_SIZES[: REQUEST_SIZES.index(max_rows) + 1]:
            if requests <= tokens:
                assert steps.step(StepSize(tokens, requests, requests)).workspace_bytes <= steps.workspace_bytes
