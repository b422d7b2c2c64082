"""A loaded model made part of an engine: its place in the arena, its scheduler, its executor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.core import ModelSlot
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.engine.scheduler import Scheduler
from antiphon.errors import InvalidRequestError, MemoryBudgetError, UnsupportedError
from antiphon.executor.encoder import EncoderExecutor
from antiphon.executor.executor import ModelExecutor, OneShotExecutor
from antiphon.executor.synthesis import SynthesisExecutor
from antiphon.models.bert import Bert
from antiphon.models.encoder_decoder import EncoderDecoder
from antiphon.models.model import CausalLM
from antiphon.models.synthesizer import Synthesizer
from antiphon.ops import CacheKind, CacheLayout, KVCache
from antiphon.ops.threads import machine_threads
from antiphon.runtime.config import PAGE_TYPES, EngineConfig
from antiphon.runtime.loading import LoadedModel
from antiphon.runtime.memory_budget import check_memory
from antiphon.runtime.process_memory import release_pages
from antiphon.weights.catalog.model_tasks import KINDS


@dataclass(frozen=True)
class Arena:
    """The memory and its bookkeeping."""

    books: SlabArena
    memory: Tensor

    @classmethod
    def allocate(cls, config: EngineConfig) -> Arena:
        check_memory(config.kv_bytes)
        books = SlabArena(config.kv_bytes, config.slab_size())
        try:
            return cls(books, ops.allocate_arena(books.total_bytes))
        except MemoryError as error:
            asked = books.total_bytes >> 20
            raise MemoryBudgetError(f"the system refused {asked:,} MiB for keys and values; ask for less") from error

    def release_free_pages(self) -> None:
        """Give the memory behind free slabs back to the system; it is zero when it is lent again."""
        if self.memory.device.type == "cpu":
            base = self.memory.data_ptr()
            for offset, size in self.books.free_spans():
                release_pages(base + offset, size)


def cache_layouts(model: CausalLM, config: EngineConfig) -> list[CacheLayout]:
    """The model's groups in the engine's page types, with compression where it is asked for."""
    layouts = []
    for group in model.cache_groups():
        compressed = config.recent_tokens is not None and group.kind is CacheKind.FULL
        try:
            layout = CacheLayout(
                group,
                config.block_tokens,
                PAGE_TYPES[config.key_type],
                PAGE_TYPES[config.value_type],
                recent_tokens=config.recent_tokens if compressed else None,
                sink_tokens=config.sink_tokens if compressed else 0,
            )
        except ValueError as error:
            raise InvalidRequestError(
                f"key_type {config.key_type!r}, value_type {config.value_type!r}: {error}"
            ) from error
        layouts.append(layout)
    return layouts


def make_slot(loaded: LoadedModel, arena: Arena, config: EngineConfig) -> ModelSlot:
    """Scheduler and executor for a model, on the shared arena."""
    model = loaded.model
    if isinstance(model, Bert):
        one_shot = OneShotScheduler(
            loaded.name,
            config.make_policy(),
            max_model_tokens=model.max_positions,
            max_step_tokens=max(config.max_step_tokens, model.max_positions),
            step_seconds=config.step_seconds,
        )
        return ModelSlot(loaded.name, one_shot, OneShotExecutor(model, record=config.record))
    if isinstance(model, Synthesizer):
        return make_synthesis_slot(loaded, model, config)
    if not isinstance(model, CausalLM):
        kind = KINDS.get(model.task, f"for {model.task}")
        raise UnsupportedError(f"{loaded.name} is {kind}; the engine uses it inside other models and cannot serve it")
    layouts = cache_layouts(model, config)
    largest = max(layout.block_bytes for layout in layouts)
    if largest > arena.books.slab_bytes:
        raise InvalidRequestError(
            f"{loaded.name} needs at least {largest * 4 / 1e6:.2f} MB for keys and values; the cache has "
            f"{arena.books.total_bytes / 1e6:.2f} MB"
        )
    max_tokens = min(model.max_positions, config.max_model_tokens or model.max_positions)
    specs = [
        GroupSpec(
            layout.group.name,
            layout.block_bytes,
            window=layout.window,
            sink_tokens=layout.sink_tokens,
            cross=layout.group.kind is CacheKind.CROSS,
        )
        for layout in layouts
    ]
    revision = f"{loaded.name}:{config.key_type}:{config.value_type}:{config.sink_tokens}:{config.recent_tokens}"
    step_tokens = config.max_step_tokens if config.chunk_tokens is not None else max_tokens
    kv = KVManager(
        arena.books,
        specs,
        config.block_tokens,
        max_step_tokens=step_tokens,
        revision=revision,
        prefix_caching=config.prefix_caching,
    )
    scheduler = Scheduler(loaded.name, kv, config.make_policy(), config.scheduler(), max_tokens)
    executor = ModelExecutor(
        model,
        KVCache(arena.memory, layouts, model.key_balance),
        max_rows=config.max_running,
        max_tokens=max_tokens,
        max_cross_tokens=model.cross_tokens if isinstance(model, EncoderDecoder) else 0,
        vocab_size=min(model.vocab_size, loaded.tokenizer.vocab_size),
        record=config.record,
    )
    return ModelSlot(loaded.name, scheduler, executor)


#: Phonemes of the utterances that one step of a synthesiser takes together; for each core, where it computes them side
#: by side. Its convolutions gain nothing from more, and a step that is longer makes everybody else wait.
SYNTHESIS_STEP_TOKENS = 96


def make_synthesis_slot(loaded: LoadedModel, model: Synthesizer, config: EngineConfig) -> ModelSlot:
    """A synthesiser as one-shot requests, an utterance each; every stage is a step of its own.

    Its requests go by priority even where others go by arrival, since a listener about to hear nothing must go first.
    """
    policy = replace(config, policy="priority") if config.policy == "fcfs" else config
    side_by_side = machine_threads() if model.lone_stages == len(model.stages) else 1
    scheduler = OneShotScheduler(
        loaded.name,
        policy.make_policy(),
        max_model_tokens=model.max_positions,
        num_stages=len(model.stages),
        side_by_side=side_by_side,
        max_step_tokens=SYNTHESIS_STEP_TOKENS * side_by_side,
        step_seconds=config.step_seconds,
    )
    return ModelSlot(loaded.name, scheduler, SynthesisExecutor(model))


def encoder_name(model: str) -> str:
    """What the encoder's part of a model is called inside the engine."""
    return f"{model} encoder"


def make_encoder_slot(loaded: LoadedModel, decoder: ModelSlot, config: EngineConfig) -> ModelSlot | None:
    """The encoder of an encoder-decoder as one-shot requests, a window each; None for every other model.

    A stage of it is a step of its own, so that other models' steps come between the layers of a window. Encoder and
    decoder share the model's time.
    """
    model = loaded.model
    if not isinstance(model, EncoderDecoder):
        return None
    scheduler = OneShotScheduler(
        encoder_name(loaded.name),
        config.make_policy(),
        max_model_tokens=model.cross_tokens,
        num_stages=model.num_encoder_stages,
        max_step_tokens=max(config.max_step_tokens, model.cross_tokens),
        step_seconds=config.step_seconds,
    )
    name = encoder_name(loaded.name)
    return ModelSlot(name, scheduler, EncoderExecutor(model), clock=decoder.clock, feeds=decoder)


def check_batch_invariance(device: torch.device | str = "cpu") -> None:
    """Batch-invariant mode needs kernels that treat every row alike; the reference's matrix product does not."""
    backend = ops.active_backend(torch.device(device).type)
    if backend.name == "reference":
        raise UnsupportedError(
            "batch-invariant mode needs the native kernels, and this installation was made without a C++ compiler"
        )
