"""Check that an unloaded model leaves nothing behind except CUDA's context and the loaded kernels."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

import torch

from antiphon.bench.random_models.random_model import SHAPES, random_model_of
from antiphon.engine.sampling_params import SamplingParams
from antiphon.ops import Device
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from checks.outcome import Outcome, Subject
from support.programs.server_process import resident_bytes

NAME = "memory after unloading"
#: Maximum bytes left after the first unload (libraries such as cuBLAS's 64 MiB workspaces, and kernel code), and
#: maximum growth afterwards.
MAX_LEFT, MAX_GROWTH = 192 << 20, 4 << 20
MAX_CPU_GROWTH = 32 << 20  # the CPU's allocator keeps chunks
CYCLES = 3
LARGE: dict[str, Any] = SHAPES["qwen3-0.6b"]
SMALL = LARGE | {"num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 1024, "vocab_size": 8000}


def check(subject: Subject) -> Iterator[Outcome]:
    device = subject.device
    is_card = device.torch.type == "cuda"
    config = EngineConfig(device=device.name, kv_bytes=1 << 28, max_running=32)
    if is_card:  # load the context and the matrix library with its workspace before the first measurement
        ones = torch.ones(64, 64, dtype=device.compute_type, device=device.torch)
        (ones @ ones).sum().item()
        del ones
    with Engine(config=config) as engine:
        before = used_bytes(device)
        within, after = [], []
        for _ in range(CYCLES):
            within.append(_use(engine, LARGE if is_card else SMALL, device) - before)
            after.append(used_bytes(device) - before)
    growth = max(after[1:]) - after[0]
    limit = MAX_GROWTH if is_card else MAX_CPU_GROWTH
    passed = growth <= limit and (not is_card or after[0] <= MAX_LEFT)
    figures = (
        f"{max(within) / (1 << 20):,.0f} MiB while loaded; left after each time: "
        f"{', '.join(f'{left / (1 << 20):,.1f}' for left in after)} MiB"
    )
    yield Outcome(NAME, passed, figures)


def used_bytes(device: Device) -> int:
    gc.collect()
    if device.torch.type != "cuda":
        return resident_bytes(os.getpid())
    torch.cuda.synchronize(device.torch)
    torch.cuda.empty_cache()
    return device.limits.total_bytes - device.free_bytes()


def _use(engine: Engine, metadata: dict[str, Any], device: Device) -> int:
    """Load a model, generate in steps of several sizes, and unload it; return the bytes used while it was loaded."""
    name = engine.load(random_model_of("random", metadata, device=device)).name
    for count in (1, 7, 32):
        engine.generate([[5, 6, 7, *range(10, 10 + count)]] * count, SamplingParams(max_tokens=8, ignore_eos=True))
    used = used_bytes(device)
    engine.unload(name)
    return used
