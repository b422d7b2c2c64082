"""Cases of the Triton kernels: on a card where there is one, else where Triton's interpreter runs them on the CPU.

Without either, `test_interpreted.py` runs them in a process of its own. What operations allocate is filled with NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

from antiphon.ops.triton import available, is_interpreted
from support.kernels.interpreted import keep_language_patched

collect_ignore_glob = [] if find_spec("triton") and available() else ["test_*.py"]
if find_spec("triton") and is_interpreted():
    keep_language_patched()

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(params=[0, pytest.param(1, marks=() if DEVICE == "cuda" else pytest.mark.soak)])
def generator(request: pytest.FixtureRequest) -> torch.Generator:
    return torch.Generator().manual_seed(request.param)


@pytest.fixture
def device() -> torch.device:
    return torch.device(DEVICE, torch.cuda.current_device()) if DEVICE == "cuda" else torch.device(DEVICE)


@pytest.fixture
def half() -> torch.dtype:
    """The 16-bit type: the interpreter's products of bf16 are wrong."""
    return torch.bfloat16 if DEVICE == "cuda" else torch.float16


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide products of few rows into few programs, which the interpreter runs one after the other."""
    if is_interpreted():
        from antiphon.ops.triton import product
        from antiphon.ops.triton.launch import FewRowsTile, ceil_power
        from antiphon.ops.triton.program import product_lowering
        from antiphon.ops.triton.program.tiles import VectorTile

        monkeypatch.setattr(product, "vector_tile", lambda _, depth, __: FewRowsTile(64, ceil_power(depth), 4))
        monkeypatch.setattr(product_lowering, "vector_tile", lambda depth, *_: VectorTile(32, ceil_power(depth), 4))
