"""Memory of keys and values in an analysis, against the blocks of a real engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from antiphon.engine.kv.manager import KVManager
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.models.registry import build_model
from antiphon.ops import get_backend
from antiphon.ops.device import OPENERS, DeviceLimits
from antiphon.runtime.analysis.analysis import Sizes, analyze
from antiphon.runtime.analysis.kv_memory import PageMemory
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_memory import reserve_bytes, workspace_bytes
from antiphon.runtime.loading.machine_limits import GivenLimits
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint
from support.kernels.cards import ImitatedCard

LENGTH = 300


def analyzed(path: Path, **options: object) -> tuple[dict[str, PageMemory], EngineConfig]:
    config = EngineConfig(device="cpu", prefix_caching=False, **options)  # type: ignore[arg-type]
    analysis = analyze(resolve(str(path)), Sizes(context=LENGTH), config, GivenLimits(1e9, 1e9))
    return {pages.type: pages for pages in analysis.pages}, config


def admitted(kv: KVManager) -> list[Request]:
    """Requests of the length that find room, one after the other."""
    found: list[Request] = []
    while True:
        request = Request("r", "m", list(range(LENGTH)), SamplingParams())
        kv.attach_prefix(request)
        if not kv.grow(request, LENGTH, StepPlan("m")):
            kv.release(request)
            return found
        found.append(request)


@pytest.mark.parametrize("kv_bytes", [1 << 20, 5 << 20, 40 << 20])
@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16"])
def test_as_many_requests_fit_as_an_engine_admits(tiny_llama: Path, kv_bytes: int, kind: str) -> None:
    pages, config = analyzed(tiny_llama, kv_bytes=kv_bytes, key_type=kind, value_type=kind)
    with Engine(str(tiny_llama), config=config) as engine:
        (slot,) = engine._core.slots.values()
        kv = slot.scheduler.kv  # type: ignore[attr-defined]
        requests = admitted(kv)
        assert len(requests) == pages[kind].num_fitting and requests
        assert kv.usage().owned_bytes == len(requests) * pages[kind].bytes_per_request
        (pool,) = kv.pools
        assert pages[kind].bytes_per_token == pool.block_bytes / kv.block_tokens
        for request in requests:
            kv.release(request)


def test_a_block_larger_than_the_memory_fits_no_request(tiny_llama: Path) -> None:
    pages, _ = analyzed(tiny_llama, kv_bytes=4096)
    assert {found.num_fitting for found in pages.values()} == {0}


def test_types_of_pages(tiny_llama: Path) -> None:
    """int8 pages need heads of a multiple of 32 channels, and the CPU has no fp8."""
    pages, _ = analyzed(tiny_llama)
    assert list(pages) == ["fp32", "fp16", "bf16"]


def test_a_gpu_keeps_what_its_weights_and_its_steps_leave(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that is open: its free memory, less the weights, a step's workspace and the reserve."""
    limits = DeviceLimits("card", 1 << 30)
    card = ImitatedCard(torch.device("cpu"), get_backend("reference"), torch.bfloat16, limits)
    monkeypatch.setitem(OPENERS, "cuda", lambda index, compute_type: card)
    monkeypatch.setattr("antiphon.runtime.analysis.machine.cuda_obstacle", lambda index: None)
    config = EngineConfig(device="cuda")
    analysis = analyze(resolve(str(tiny_llama)), Sizes(context=LENGTH), config, GivenLimits(1e9, 1e9))
    assert (analysis.machine.name, analysis.page_type, analysis.unknown) == ("card", "bf16", [])
    assert analysis.kv_bytes is not None
    workspace = workspace_bytes(build_model(open_checkpoint(tiny_llama)), config.sizes(card))
    assert analysis.kv_bytes == card.free_bytes() - analysis.weight_bytes - workspace - reserve_bytes(card)
    small = replace(card, limits=replace(limits, total_bytes=1 << 20))
    monkeypatch.setitem(OPENERS, "cuda", lambda index, compute_type: small)
    crowded = analyze(resolve(str(tiny_llama)), Sizes(context=LENGTH), config, GivenLimits(1e9, 1e9))
    assert crowded.kv_bytes is None and {pages.num_fitting for pages in crowded.pages} == {None}
    assert "nothing is left for the KV cache" in crowded.unknown[0]
