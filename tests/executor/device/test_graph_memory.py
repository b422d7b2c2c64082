"""Steps of every size fit their workspace; nothing runs."""

from __future__ import annotations

import itertools

import pytest
import torch

from antiphon.executor.device.buckets import row_bucket, split_count
from antiphon.executor.device.rows import DeviceRows
from antiphon.ops.program import Recording
from antiphon.runtime.loading.device_memory import workspace_bytes
from antiphon.runtime.loading.device_sizes import DeviceSizes
from support.engine.meta_steps import meta_model, meta_recording

pytest.importorskip("triton")


def on_meta(kv_heads: int, max_rows: int) -> tuple[Recording, DeviceRows]:
    return meta_recording(meta_model(num_hidden_layers=2, num_key_value_heads=kv_heads), max_rows, 4096)


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
            for draw, is_chained in itertools.product(Draw, (False, True)):
                graphs._make(rows, splits, draw, is_chained)


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


@pytest.mark.parametrize("shape", ["smollm2-135m", "qwen3-0.6b", "qwen3-8b"])
def test_what_is_reserved_is_enough_and_not_much_more(shape: str) -> None:
    from antiphon.executor.device.prompt_steps import PromptSteps

    model, (max_rows, max_tokens) = meta_model(shape, num_hidden_layers=1), (256, 2048)
    recording, store = meta_recording(model, max_rows, max_tokens)
    steps = PromptSteps(recording, store, max_rows, max_tokens, torch.bfloat16)
    reserved = workspace_bytes(model, DeviceSizes(max_rows, max_tokens, "bf16", "bf16"))
    assert steps.workspace_bytes < reserved < 3 * steps.workspace_bytes
