"""A process compiles kernels for a card that is not there, and this one finds them in the cache on disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from triton import knobs
from triton.runtime.driver import driver

import antiphon
from antiphon.ops.triton import is_interpreted
from antiphon.ops.triton.ahead import worker
from antiphon.ops.triton.ahead.kernel_modules import hash_kernels
from antiphon.ops.triton.ahead.processes import CompilerProcess, ProcessEndedError
from antiphon.ops.triton.ahead.variant import Variant

pytestmark = pytest.mark.skipif(is_interpreted(), reason="kernels are compiled by Triton, not interpreted")
CAPABILITY = 90


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Kernels that this process had no binary of, and whether the cache on disk had one."""
    found: list[tuple[str, bool]] = []

    def listen(*, src: Any, cache_hit: bool, **_: Any) -> None:
        found.append((src.name, cache_hit))

    hash_kernels()
    monkeypatch.setitem(vars(knobs.cache), "dir", str(tmp_path))
    monkeypatch.setattr(knobs.compilation, "listener", listen)
    monkeypatch.setattr(driver, "_active", worker.TargetDriver(CAPABILITY))
    return found


@pytest.fixture
def process(compilations: list[tuple[str, bool]]) -> Iterator[CompilerProcess]:
    made = CompilerProcess(CAPABILITY)
    yield made
    made.close()


@pytest.mark.long("Triton is imported by a process and compiles two kernels")
def test_kernels_of_a_process_are_read_here(process: CompilerProcess, compilations: list[tuple[str, bool]]) -> None:
    from antiphon.ops.triton.kernels.products.epilogue import finish_product
    from antiphon.ops.triton.kernels.rows.store import grow_rows

    rows, wide = torch.zeros(4, dtype=torch.int32), torch.zeros(8, 64, dtype=torch.bfloat16)
    gate = dict(N=32, ROWS=2, BLOCK=32, GATED=True, ACTIVATION=4, BIAS=False, RESIDUAL=False, num_warps=4)
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (grow_rows, (rows, rows, rows[1:], 3, 32), {"BLOCK": 4, "CHAINED": False}),
        (finish_product, (wide, wide, wide, wide.float(), 8), gate),
    ]
    for kernel, arguments, keywords in launches:
        variant = Variant.of(kernel, arguments, keywords)
        process.compile(variant)
        variant.compile()
        kernel.warmup(*arguments, grid=(1,), **keywords)  # real tensors need nothing more
    assert compilations == [("grow_rows", True), ("finish_product", True)]


@pytest.mark.long("a process imports Triton and compiles a kernel")
def test_a_kernel_that_cannot_be_compiled(process: CompilerProcess) -> None:
    from antiphon.ops.triton.kernels.rows.store import grow_rows

    rows = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="power of 2"):
        process.compile(Variant.of(grow_rows, (rows, rows, rows, 3, 32), {"BLOCK": 3, "CHAINED": False}))
    process.compile(Variant.of(grow_rows, (rows, rows, rows, 3, 32), {"BLOCK": 2, "CHAINED": False}))  # it goes on


def test_a_process_that_was_killed(process: CompilerProcess) -> None:
    from antiphon.ops.triton.kernels.rows.store import grow_rows

    process.kill()
    rows = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(ProcessEndedError, match="ended"):
        process.compile(Variant.of(grow_rows, (rows, rows, rows, 3, 32), {"BLOCK": 2, "CHAINED": False}))


def test_processes_import_no_torch() -> None:
    folder = Path(antiphon.__file__).parents[1]
    code = f"""
import sys
sys.path.insert(0, {str(Path(worker.__file__).parent)!r})
import worker
worker.import_bare(worker.Path({str(folder)!r}))
from antiphon.ops.triton.ahead.kernel_modules import hash_kernels
hash_kernels()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
