"""A model on a GPU is ready when the kernels of its first steps are compiled, and says how long that took."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from antiphon.executor.device import executor as device
from antiphon.ops.triton.ahead import compiler
from antiphon.runtime.loading.weight_forms import LoadReport
from antiphon.runtime.slots.decoder import device_executor


class FakeCompiler:
    def __init__(self, on: torch.device) -> None:
        self.on = on


class FakeExecutor:
    def __init__(self, part: Any, cache: Any, on: Any, **shape: Any) -> None:
        self.compiler: FakeCompiler | None = None
        self.speculates: bool | None = None

    def compile_ahead(self, compiler: FakeCompiler, speculates: bool) -> None:
        self.compiler, self.speculates = compiler, speculates


@pytest.mark.parametrize("speculates", [False, True])
def test_kernels_are_a_phase_of_loading(monkeypatch: pytest.MonkeyPatch, speculates: bool) -> None:
    monkeypatch.setattr(device, "DeviceExecutor", FakeExecutor)
    monkeypatch.setattr(compiler, "AheadCompiler", FakeCompiler)
    loaded: Any = SimpleNamespace(device=SimpleNamespace(torch=torch.device("cuda", 0)), report=LoadReport())
    nothing: Any = None
    made: Any = device_executor(nothing, nothing, loaded, speculates, max_rows=1)
    assert made.compiler.on == torch.device("cuda", 0) and made.speculates is speculates
    assert list(loaded.report.seconds) == ["kernels"]
