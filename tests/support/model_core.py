"""An engine core over a tiny random Llama: the real scheduler, sampler and executor, without a tokenizer."""

from __future__ import annotations

from functools import cache

from antiphon.engine.core import EngineCore, ModelSlot
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.policies.fcfs import FirstComeFirstServed
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import SchedulerConfig
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, KVCache, allocate_arena
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.tiny_model import CONFIG, EMBEDDING_ROWS, tiny_state

MODEL = "tiny"
VOCABULARY = EMBEDDING_ROWS
MAX_TOKENS = 128
MAX_RUNNING = 8


@cache
def tiny_decoder() -> CausalLM:
    model = build_model(StateDictCheckpoint(tiny_state(), "llama", CONFIG))
    assert isinstance(model, CausalLM)
    return model


def make_core(depth: int = 1, late_choice: bool = True) -> tuple[EngineCore, DecoderExecutor]:
    """A core whose one model may have `depth` steps in flight, and that model's executor."""
    model = tiny_decoder()
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, 4) for group in model.cache_groups()]
    slab_bytes = 4 * max(layout.block_bytes for layout in layouts)
    arena = SlabArena(128 * slab_bytes, slab_bytes)
    kv = KVManager(arena, [GroupSpec(layout.group.name, layout.block_bytes) for layout in layouts], 4)
    config = SchedulerConfig(max_running=MAX_RUNNING)
    executor = DecoderExecutor(
        decoder,
        KVCache(allocate_arena(arena.total_bytes), layouts, model.key_balance),
        max_rows=MAX_RUNNING,
        max_tokens=MAX_TOKENS,
        vocab_size=VOCABULARY,
    )
    core = EngineCore()
    scheduler = Scheduler(MODEL, kv, FirstComeFirstServed(), config, MAX_TOKENS, late_choice)
    core.add_model(ModelSlot(MODEL, scheduler, executor, depth=depth))
    return core, executor
