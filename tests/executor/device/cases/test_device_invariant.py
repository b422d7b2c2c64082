"""Batch-invariant mode on a device: a request's logits have the same bits in any batch, however its prompt was cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.core import EngineCore
from antiphon.engine.request import Request
from antiphon.engine.scheduler_config import SchedulerConfig
from antiphon.executor.device.executor import DeviceExecutor
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, Device, KVCache, allocate_arena
from antiphon.ops.device import DeviceLimits
from antiphon.ops.triton.weights import prepare_weights
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.engine.mixed_requests import request
from support.engine.model_core import BLOCK_TOKENS, MAX_TOKENS, MODEL, SLAB_BLOCKS, VOCABULARY, make_core
from support.engine.running import run
from support.models.tiny_model import CONFIG, tiny_state

ON_CARD = torch.cuda.is_available()
#: The interpreter multiplies bf16 wrongly.
HALF = torch.bfloat16 if ON_CARD else torch.float16
#: Requests that run together; the interpreter takes long for many.
BATCHES = [7, *(pytest.param(count, marks=() if ON_CARD else pytest.mark.soak) for count in (32, 256))]
SLABS = 1024
WATCHED = [*range(30, 39)]
LENGTH = 2

#: By request and number of its tokens so far.
Logits = dict[tuple[str, int], Tensor]


@pytest.fixture
def device() -> Iterator[Device]:
    target = torch.device("cuda", 0) if ON_CARD else torch.device("cpu")
    with ops.use_backend("triton"):
        yield Device(target, ops.get_backend("triton"), HALF, DeviceLimits("a card", 0))


def half_model(device: Device) -> CausalLM:
    """The tiny model's first layer in 16 bits, on the device."""
    model = build_model(StateDictCheckpoint(tiny_state(), "llama", CONFIG | {"num_hidden_layers": 1}))
    assert isinstance(model, CausalLM)
    if not device.is_cpu:
        model.place(device.torch)
    for node in model.modules():
        node.set_compute_type(device.compute_type)
        node.prepare()
    prepare_weights(list(model.weights()), device=device.torch, dtype=device.compute_type)
    return model


def invariant_core(device: Device, config: SchedulerConfig) -> tuple[EngineCore, DeviceExecutor, Logits]:
    """A core with two steps in flight, its executor, and the logits that it draws from."""
    core, inner = make_core(2, config=config, num_slabs=SLABS)
    inner.close()
    model = half_model(device)
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, BLOCK_TOKENS, HALF, HALF) for group in model.cache_groups()]
    size = SLABS * SLAB_BLOCKS * max(CacheLayout(group, BLOCK_TOKENS).block_bytes for group in model.cache_groups())
    executor = DeviceExecutor(
        decoder,
        KVCache(allocate_arena(size, device.torch), layouts, model.key_balance),
        device,
        max_rows=config.max_running,
        max_tokens=MAX_TOKENS,
        vocab_size=VOCABULARY,
        batch_invariant=True,
    )
    core.slots[MODEL].executor = executor
    seen: Logits = {}
    draw = executor._sampler.draw

    def watched(plan: Any, step: Any, logits: Tensor, *arguments: Any, **options: Any) -> Any:
        for index, entry in enumerate(step.sample_entries):
            row = index if step.sample_rows is None else step.sample_rows[index]
            seen[plan.requests[entry].id, plan.starts[entry] + plan.counts[entry]] = logits[row].clone()
        return draw(plan, step, logits, *arguments, **options)

    executor._sampler.draw = watched  # type: ignore[method-assign]
    return core, executor, seen


def alone(device: Device) -> tuple[Request, Logits]:
    core, executor, seen = invariant_core(device, SchedulerConfig(max_running=1))
    made = request("watched", WATCHED, max_tokens=LENGTH)
    run(core, [made])
    executor.close()
    assert sorted(seen) == [("watched", len(WATCHED) + index) for index in range(LENGTH)]
    return made, seen


def same(seen: Logits, expected: Logits, name: str = "watched") -> None:
    for (_, length), logits in expected.items():
        assert torch.equal(seen[name, length], logits), f"{name} with {length} tokens"
        assert torch.isfinite(logits).all() and logits.abs().max() > 0


def others(count: int) -> list[Request]:
    return [request(f"{row}", [60 + row % 100], max_tokens=LENGTH) for row in range(count)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.timeout(600)
def test_logits_are_those_of_the_request_alone(device: Device, batch: int) -> None:
    """In a batch, its prompt in chunks or whole; then with its prompt cached, and its answer as part of a prompt."""
    made, expected = alone(device)
    chunk = 5 if batch == 7 else None
    core, executor, seen = invariant_core(device, SchedulerConfig(max_running=batch, chunk_tokens=chunk))
    around = others(batch - 1)
    run(core, [*around[: batch // 2], request("watched", WATCHED, max_tokens=LENGTH), *around[batch // 2 :]])
    same(seen, expected)
    cached = request("cached", WATCHED, max_tokens=LENGTH)
    longer = request("longer", [*WATCHED, *made.output[:-1]], max_tokens=1)
    run(core, [cached, longer])
    assert cached.num_cached_tokens >= BLOCK_TOKENS
    same(seen, expected, "cached")
    last = len(WATCHED) + LENGTH - 1
    assert torch.equal(seen["longer", last], expected["watched", last]), "prefill and decode differ"
    assert executor._graphs is None, "decode steps are those of the usual mode"
    executor.close()


@pytest.mark.skipif(not ON_CARD, reason="graphs are a card's")
def test_steps_are_graphs(device: Device) -> None:
    """Of sizes that come a second time; replayed, they give the same bits."""
    core, executor, seen = invariant_core(device, SchedulerConfig(max_running=7))
    for name in ("first", "second"):
        run(core, [request(name, WATCHED, max_tokens=12)])
    assert executor._forwards is not None and executor._forwards.num_graphs > 0
    for length in range(len(WATCHED), len(WATCHED) + 12):
        assert torch.equal(seen["first", length], seen["second", length])
    executor.close()
