"""The slot of a token decoder: its blocks in the shared arena, its scheduler, its executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from antiphon import ops
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.plan import Executor
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError, UnsupportedError
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.executor.drafting import DraftingExecutor
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import CacheGroup, CacheKind, CacheLayout, KVCache
from antiphon.runtime.loading.config import PAGE_TYPES, EngineConfig
from antiphon.runtime.loading.device_sizes import DeviceSizes
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots.context import DEVICE_DEPTH, SlotContext

#: Maximum bytes of a step's fp32 logits for prompts whose log-probabilities are requested.
PROMPT_LOGIT_BYTES = 256 << 20


def cache_layouts(
    groups: Sequence[CacheGroup], config: EngineConfig, sizes: DeviceSizes | None = None
) -> list[CacheLayout]:
    """Return the layout of each cache group, with the page types of a device (default: the CPU's).

    `FULL` groups are compressed if the configuration says so. Raise InvalidRequestError if the page types do not fit.
    """
    layouts, sizes = [], sizes or config.sizes()
    for group in groups:
        compressed = config.recent_tokens is not None and group.kind is CacheKind.FULL
        try:
            layout = CacheLayout(
                group,
                config.block_tokens,
                PAGE_TYPES[sizes.key_type],
                PAGE_TYPES[sizes.value_type],
                recent_tokens=config.recent_tokens if compressed else None,
                sink_tokens=config.sink_tokens if compressed else 0,
            )
        except ValueError as error:
            raise InvalidRequestError(
                f"key_type {sizes.key_type!r}, value_type {sizes.value_type!r}: {error}"
            ) from error
        layouts.append(layout)
    return layouts


def check_page_types(sizes: DeviceSizes, device_type: str) -> None:
    """Reject page types that the device type does not support."""
    for kind in (sizes.key_type, sizes.value_type):
        if not ops.stores_pages(PAGE_TYPES[kind], device_type):
            raise UnsupportedError(f"{kind} pages are not supported on the CPU; use int8 for the same size")


def group_specs(layouts: Sequence[CacheLayout]) -> list[GroupSpec]:
    """Convert cache layouts to the specs that the block manager takes."""
    return [
        GroupSpec(
            layout.group.name,
            layout.block_bytes,
            window=layout.window,
            sink_tokens=layout.sink_tokens,
            cross=layout.group.kind is CacheKind.CROSS,
        )
        for layout in layouts
    ]


def device_executor(
    part: TokenDecoder, cache: KVCache, loaded: LoadedModel, speculates: bool, **shape: Any
) -> Executor:
    """Create an executor for a device other than the CPU; on CUDA, compile the kernels of its first steps."""
    from antiphon.executor.device.executor import DeviceExecutor
    from antiphon.ops.triton.ahead.compiler import AheadCompiler

    executor = DeviceExecutor(part, cache, loaded.device, **shape)
    if loaded.device.torch.type != "cuda":  # simulated device: no kernels to compile
        return executor
    with loaded.report.phase("kernels"):
        executor.compile_ahead(AheadCompiler(loaded.device.torch), speculates)
    return executor


def decoder_slot(part: TokenDecoder, context: SlotContext) -> ModelSlot:
    loaded, config, sizes = context.loaded, context.config, context.sizes
    check_page_types(sizes, context.arena.memory.device.type)
    layouts = _layouts(part, loaded, context)
    max_tokens = min(part.max_positions, config.max_model_tokens or part.max_positions)
    limits = replace(
        config.scheduler(sizes),
        prompt_logprob_tokens=max(1, PROMPT_LOGIT_BYTES // (4 * part.vocab_size)),
        isolates_fills=loaded.device.is_cpu,
    )
    speculates = config.speculation is not Speculation.OFF
    executor = _executor(part, loaded, layouts, max_tokens, speculates, context)
    draft_model = None
    if context.draft is not None:
        draft_model, drafting = _draft_model(context.draft, context)
        executor = DraftingExecutor(executor, drafting)
    scheduler = Scheduler(
        context.name,
        _kv_manager(context.name, layouts, max_tokens, context),
        config.make_policy(),
        limits,
        max_tokens,
        DecoderExecutor.late_choice,
        draft_model,
    )
    if loaded.device.is_cpu:
        return ModelSlot(context.name, scheduler, executor)
    return ModelSlot(context.name, scheduler, executor, depth=DEVICE_DEPTH)


def _draft_model(draft: LoadedModel, context: SlotContext) -> tuple[DraftModel, Executor]:
    """Create a draft model's block bookkeeping and its executor, on the arena of the model that it drafts for."""
    part = draft.model.part(TokenDecoder)
    assert part is not None
    layouts = _layouts(part, draft, context)
    config = context.config
    max_tokens = min(part.max_positions, config.max_model_tokens or part.max_positions)
    model = DraftModel(
        draft.name,
        _kv_manager(f"{context.name} drafts of {draft.name}", layouts, max_tokens, context),
        max_tokens,
        config.chunk_tokens or context.sizes.max_step_tokens,
        draft.bytes_per_step() / max(context.loaded.bytes_per_step(), 1),
    )
    return model, _executor(part, draft, layouts, max_tokens, False, context)


def _layouts(part: TokenDecoder, loaded: LoadedModel, context: SlotContext) -> list[CacheLayout]:
    """Return the cache layouts of a decoder; reject blocks that are larger than the arena's slabs."""
    layouts, books = cache_layouts(part.cache_groups, context.config, context.sizes), context.arena.books
    largest = max(layout.block_bytes for layout in layouts)
    if largest > books.slab_bytes:
        raise InvalidRequestError(
            f"{loaded.name} keeps keys and values in blocks of {largest / 1e6:.2f} MB; the cache of "
            f"{books.total_bytes / 1e6:.2f} MB is divided into pieces of {books.slab_bytes / 1e6:.2f} MB. "
            "Give it more memory"
        )
    return layouts


def _executor(
    part: TokenDecoder,
    loaded: LoadedModel,
    layouts: Sequence[CacheLayout],
    max_tokens: int,
    speculates: bool,
    context: SlotContext,
) -> Executor:
    sizes, config = context.sizes, context.config
    cache = KVCache(context.arena.memory, list(layouts), part.key_balance)
    shape: dict[str, Any] = dict(
        max_rows=sizes.max_running,
        max_tokens=max_tokens,
        vocab_size=min(part.vocab_size, loaded.tokenizer.vocab_size),
        record=config.record,
    )
    if loaded.device.is_cpu:
        return DecoderExecutor(part, cache, **shape)
    shape["batch_invariant"] = config.batch_invariant
    shape["max_step_tokens"] = sizes.max_step_tokens
    return device_executor(part, cache, loaded, speculates, **shape)


def _kv_manager(name: str, layouts: Sequence[CacheLayout], max_tokens: int, context: SlotContext) -> KVManager:
    config, sizes = context.config, context.sizes
    revision = f"{name}:{sizes.key_type}:{sizes.value_type}:{config.sink_tokens}:{config.recent_tokens}"
    return KVManager(
        context.arena.books,
        group_specs(layouts),
        config.block_tokens,
        max_step_tokens=sizes.max_step_tokens if config.chunk_tokens is not None else max_tokens,
        revision=revision,
        prefix_caching=config.prefix_caching,
    )
