"""Engine core with a device executor over a tiny random Llama."""

from __future__ import annotations

from typing import Any

from antiphon.engine.core import EngineCore
from antiphon.engine.scheduler import Scheduler
from antiphon.executor.device.executor import DeviceExecutor
from antiphon.executor.drafting import DraftingExecutor
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, Device, KVCache, allocate_arena
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.engine.model_core import BLOCK_TOKENS, MAX_TOKENS, MODEL, SLAB_BLOCKS, VOCABULARY, make_core
from support.models.tiny_model import CONFIG, LAYERS, tiny_state


def device_core(device: Device, **options: Any) -> tuple[EngineCore, DeviceExecutor]:
    """Build a core with up to two steps in flight and a device executor; return both.

    With `draft_noise`, the model drafts for itself, and one step is in flight.
    """
    drafts, layers = options.get("draft_noise") is not None, options.get("layers", LAYERS)
    core, inner = make_core(1 if drafts else 2, **options)
    model = build_model(StateDictCheckpoint(tiny_state(), "llama", CONFIG | {"num_hidden_layers": layers}))
    assert isinstance(model, CausalLM)
    if not device.is_cpu:
        model.place(device.torch)
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, BLOCK_TOKENS) for group in model.cache_groups()]
    scheduler = core.slots[MODEL].scheduler
    assert isinstance(scheduler, Scheduler)
    size = options.get("num_slabs", 128) * SLAB_BLOCKS * max(layout.block_bytes for layout in layouts)
    memory = allocate_arena(size, device.torch)

    def make() -> DeviceExecutor:
        return DeviceExecutor(
            decoder,
            KVCache(memory, layouts, model.key_balance),
            device,
            max_rows=scheduler.config.max_running,
            max_tokens=MAX_TOKENS,
            vocab_size=VOCABULARY,
        )

    executor = make()
    assert executor._graphs is not None, "the tiny model has no decode graphs"
    assert executor._forwards is not None, "the tiny model has no steps with prompts"
    core.slots[MODEL].executor = DraftingExecutor(executor, make()) if drafts else executor
    inner.close()
    return core, executor
