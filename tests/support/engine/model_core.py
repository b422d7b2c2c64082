"""Engine core over a tiny random Llama: the real scheduler, sampler and executor, without a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from antiphon.engine.core import EngineCore
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.policies.fcfs import FirstComeFirstServed
from antiphon.engine.policies.policy import Policy
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import SchedulerConfig
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.executor.drafting import DraftingExecutor
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, KVCache, allocate_arena
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.models.tiny_model import CONFIG, EMBEDDING_ROWS, LAYERS, tiny_state

MODEL = "tiny"
VOCABULARY = EMBEDDING_ROWS
MAX_TOKENS = 128
MAX_RUNNING = 8
BLOCK_TOKENS, SLAB_BLOCKS = 4, 4


@dataclass(frozen=True)
class Cached:
    """Cache settings: type of the pages, and the attention window in tokens (None for full attention)."""

    page_type: torch.dtype = torch.float32
    window: int | None = None


PLAIN = Cached()


@cache
def tiny_decoder(cached: Cached, noise: float = 0.0, layers: int = LAYERS) -> CausalLM:
    """Build the tiny model, optionally with noise in its output head or with only its first layers."""
    config = CONFIG | {"num_hidden_layers": layers}
    if cached.window is not None:
        config = {**config, "model_type": "mistral", "sliding_window": cached.window}
    if cached.page_type is torch.int8:  # int8 pages have a scale per 32 channels; the matrices keep their shapes
        config = {**config, "num_attention_heads": 2, "num_key_value_heads": 1}
    state = tiny_state()
    if noise:
        head = state["lm_head.weight"]
        state["lm_head.weight"] = head + noise * head.std() * torch.randn(
            head.shape, generator=torch.Generator().manual_seed(1)
        )
    model = build_model(StateDictCheckpoint(state, config["model_type"], config))
    assert isinstance(model, CausalLM)
    return model


def make_core(
    depth: int = 1,
    late_choice: bool = True,
    config: SchedulerConfig | None = None,
    policy: Policy | None = None,
    num_slabs: int = 128,
    prefix_caching: bool = True,
    cached: Cached = PLAIN,
    draft_noise: float | None = None,
    layers: int = LAYERS,
) -> tuple[EngineCore, DecoderExecutor]:
    """Build a core whose one model may have `depth` steps in flight; return it and that model's executor.

    With `draft_noise`, the core has a draft model: the same model with noise in its output head.
    """
    config = config or SchedulerConfig(max_running=MAX_RUNNING)
    model, page = tiny_decoder(cached, layers=layers), cached.page_type
    layouts = [CacheLayout(group, BLOCK_TOKENS, page, page) for group in model.cache_groups()]
    slab_bytes = SLAB_BLOCKS * max(layout.block_bytes for layout in layouts)
    arena = SlabArena(num_slabs * slab_bytes, slab_bytes)
    memory = allocate_arena(arena.total_bytes)
    groups = [GroupSpec(layout.group.name, layout.block_bytes, window=layout.window) for layout in layouts]

    def kv_manager() -> KVManager:
        return KVManager(arena, groups, BLOCK_TOKENS, prefix_caching=prefix_caching)

    def executor_of(model: CausalLM) -> DecoderExecutor:
        decoder = model.part(TokenDecoder)
        assert decoder is not None
        return DecoderExecutor(
            decoder,
            KVCache(memory, layouts, model.key_balance),
            max_rows=config.max_running,
            max_tokens=MAX_TOKENS,
            vocab_size=VOCABULARY,
        )

    executor, kv = executor_of(model), kv_manager()
    draft_model, runs = None, executor
    if draft_noise is not None:
        chunk = config.chunk_tokens or config.max_step_tokens
        draft_model = DraftModel("tiny draft", kv_manager(), MAX_TOKENS, chunk, weight_share=0.5)
        runs = DraftingExecutor(executor, executor_of(tiny_decoder(cached, draft_noise, layers)))
    core = EngineCore()
    scheduler = Scheduler(MODEL, kv, policy or FirstComeFirstServed(), config, MAX_TOKENS, late_choice, draft_model)
    core.add_model(ModelSlot(MODEL, scheduler, runs, depth=depth))
    return core, executor
