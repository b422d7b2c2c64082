"""Figures of a model from its files alone, for `antiphon info`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import torch

from antiphon.device_names import CPU
from antiphon.errors import AntiphonError, UnrecordableError, UnsupportedError
from antiphon.models.base.model import Model
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheGroup, CacheKind, CacheLayout, Device, KVCache, allocate_arena
from antiphon.runtime.loading.config import PAGE_TYPES
from antiphon.runtime.loading.device_sizes import default_sizes
from antiphon.runtime.loading.machine_limits import GivenLimits, processor_limits
from antiphon.weights.catalog.resolve import ResolvedModel
from antiphon.weights.formats.open import open_checkpoint


@dataclass(frozen=True)
class ModelDescription:
    """Figures of a model. `obstacle` is the reason for which this build cannot run it; None if it can."""

    name: str
    format: str
    path: str
    file_bytes: int
    architecture: str | None = None
    parameters: int | None = None
    bytes_by_type: dict[str, tuple[int, int]] = field(default_factory=dict)  # type → tensors, bytes
    context: int | None = None
    vocabulary: int | None = None
    kv_bytes_per_token: dict[str, float] = field(default_factory=dict)  # page type → bytes
    cache_groups: list[str] = field(default_factory=list)
    obstacle: str | None = None


def describe_programs(
    resolved: ResolvedModel, rows: int = 1, context: int = 512, given: GivenLimits | None = None
) -> list[str]:
    """Describe the model's functions as native programs, in readable lines; unrecordable ones with the reason.

    For a decoder's functions, also with the minimum time of a step that gives `rows` sequences a token after `context`
    tokens.
    """
    from antiphon.executor.recorded import recordings
    from antiphon.ops.native.program import check
    from antiphon.ops.program.describe import describe as describe_program
    from antiphon.ops.program.describe import totals
    from antiphon.ops.program.floor import UniformStep, floor_lines, has_floor

    model = build_model(open_checkpoint(resolved.path))
    decoder = model.part(TokenDecoder)
    states = 0 if decoder is None or decoder.cross is None else decoder.cross.num_states
    layouts = [CacheLayout(group, key_dtype=torch.float16, value_dtype=torch.float16) for group in _cache_groups(model)]
    lines: list[str] = []
    for name, make in recordings(model, KVCache(allocate_arena(0), layouts)).items():
        try:
            recording = check(make())
            lines += describe_program(name, recording)
            if has_floor(recording):
                limits = processor_limits(given or GivenLimits(), totals(recording).weight_bytes)
                lines += floor_lines(name, recording, UniformStep(rows, context, states=states), limits)
        except UnrecordableError as error:
            lines.append(f"program {name}: cannot be recorded: {error}")
    return lines


def device_lines() -> list[str]:
    """List the devices of this machine with their free memory and compute type."""
    names = [CPU, *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    lines = []
    for name in names:
        try:
            device = Device.parse(name)
        except UnsupportedError as error:
            lines.append(f"{name}: {error}")
            continue
        sizes = default_sizes(device)
        free, total = device.free_bytes() / 1e6, device.limits.total_bytes / 1e6
        memory = f"{total:,.0f} MB" if device.is_cpu else f"{free:,.0f} of {total:,.0f} MB free"
        compute = str(device.compute_type).removeprefix("torch.")
        lines.append(
            f"{name} ({device.limits.hardware}): {memory}; {compute}, {sizes.key_type} pages, {sizes.max_running} "
            f"requests and {sizes.max_step_tokens:,} tokens a step"
        )
    return lines


def _cache_groups(model: Model) -> tuple[CacheGroup, ...]:
    decoder = model.part(TokenDecoder)
    return () if decoder is None else decoder.cache_groups


def describe(resolved: ResolvedModel) -> ModelDescription:
    """Describe a model from its headers, mapped weights and module tree; nothing is computed."""
    size = sum(path.stat().st_size for path in resolved.files.values())
    base = (resolved.name, resolved.format, str(resolved.path), size)
    try:
        checkpoint = open_checkpoint(resolved.path)
    except AntiphonError as error:
        return ModelDescription(*base, obstacle=str(error))
    tensors = checkpoint.tensors().values()
    by_type: dict[str, tuple[int, int]] = {}
    for tensor in tensors:
        count, total = by_type.get(tensor.type.name, (0, 0))
        by_type[tensor.type.name] = (count + 1, total + tensor.nbytes)
    figures = dict(
        architecture=checkpoint.architecture,
        parameters=sum(prod(tensor.shape) for tensor in tensors),
        bytes_by_type=by_type,
    )
    try:
        model = build_model(checkpoint)
    except AntiphonError as error:
        return ModelDescription(*base, **figures, obstacle=str(error))  # type: ignore[arg-type]
    groups = _cache_groups(model)
    growing = [group for group in groups if group.kind is not CacheKind.CROSS]
    per_token: dict[str, float] = {}
    for name, dtype in PAGE_TYPES.items():
        try:
            per_token[name] = sum(CacheLayout(g, key_dtype=dtype, value_dtype=dtype).bytes_per_token for g in growing)
        except ValueError:  # heads are too narrow for this page type
            continue
    window = {group.name: f", window {group.window}" if group.window else "" for group in groups}
    return ModelDescription(
        *base,
        **figures,  # type: ignore[arg-type]
        context=model.max_positions,
        vocabulary=model.vocab_size,
        kv_bytes_per_token=per_token if growing else {},
        cache_groups=[
            f"{g.name} ({g.kind.value}{window[g.name]}): {g.num_layers} layers x {g.num_kv_heads} heads x {g.head_dim}"
            for g in groups
        ],
    )
