"""No kernel is compiled when requests come: all that their steps launch were compiled when the model was loaded."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Any

import pytest
import torch
from triton import knobs

from antiphon import ops
from antiphon.engine.core import EngineCore
from antiphon.executor.device.executor import DeviceExecutor
from antiphon.ops import Device
from antiphon.ops.device import DeviceLimits
from antiphon.ops.triton.ahead.compiler import AheadCompiler, Compilation
from antiphon.ops.triton.ahead.kernel_modules import all_kernels
from antiphon.ops.triton.ahead.variant import Variant
from support.engine.device_cores import device_core
from support.engine.mixed_requests import request

PROMPTS = [[40], [90]]


class Compiler(AheadCompiler):
    """Keeps what it was given. Where kernels are interpreted there is nothing to compile."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.first: set[Variant] = set()
        self.later: set[Variant] = set()
        self._is_interpreted = device.type == "cpu"

    def begin(self, variants: Any, in_background: bool = False) -> Compilation:
        given = list(variants)
        (self.later if in_background else self.first).update(given)
        return super().begin([] if self._is_interpreted else given, in_background)


@pytest.fixture
def device() -> Iterator[Device]:
    target = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    with ops.use_backend("triton"):
        yield Device(target, ops.get_backend("triton"), torch.float32, DeviceLimits("a card", 0))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> dict[Variant, None]:
    """The kernels that are launched."""
    found: dict[Variant, None] = {}

    def observe(kernel: Any) -> None:
        run = kernel.run

        def launch(*arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
            if not warmup:
                found[Variant.of(kernel, arguments, keywords)] = None
            return run(*arguments, grid=grid, warmup=warmup, **keywords)

        monkeypatch.setattr(kernel, "run", launch)

    for kernel in {id(kernel): kernel for kernel in all_kernels()}.values():
        observe(kernel)
    return found


def compiled(device: Device) -> tuple[EngineCore, DeviceExecutor, Compiler]:
    """A core whose executor's kernels are compiled, the background's too."""
    core, executor = device_core(device, layers=1)
    compiler = Compiler(device.torch)
    executor.compile_ahead(compiler)
    compiler.wait()
    return core, executor, compiler


def test_collecting_launches_nothing_and_leaves_no_trace(
    device: Device, launched: dict[Variant, None], caplog: pytest.LogCaptureFixture
) -> None:
    _, executor, compiler = compiled(device)
    assert not launched and not caplog.messages
    assert executor._forwards is not None and not executor._forwards.num_graphs
    assert not executor._rows.words.any()
    names = {variant.name for variant in compiler.first}
    assert {"prefill_attention", "scatter_words", "survey_blocks", "choose_tokens", "decode_attention"} <= names
    executor.close()


def test_every_kernel_of_a_request_was_compiled_ahead(
    device: Device, launched: dict[Variant, None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests side by side, the last of them alone. Without a card the steps with prompts are left out: they have no
    padding, and so kernels for any number of tokens.
    """
    core, executor, compiler = compiled(device)
    compilations: list[str] = []

    def listen(*, src: Any, **_: Any) -> None:
        compilations.append(src.name)

    monkeypatch.setattr(knobs.compilation, "listener", listen)
    requests = [request("short", PROMPTS[0], max_tokens=3), request("long", PROMPTS[1], max_tokens=4)]
    if not device.is_cpu:  # the interpreter is slow
        requests.append(request("filtered", PROMPTS[1], max_tokens=2, top_p=0.95, temperature=0.7))
    for made in requests:
        core.add(made)
    while not all(made.num_output_tokens for made in requests):
        core.step()
    if device.is_cpu:
        launched.clear()
    while core.has_work:
        core.step()
    missed = [variant.text() for variant in launched if variant not in compiler.first]
    assert not missed, "\n".join(missed)
    assert launched and not compilations
    executor.close()


def test_drafts_are_rows_of_a_decode_step_when_its_kernels_are_there(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, executor = device_core(device, layers=1)
    compiler = Compiler(device.torch)
    begun: list[bool] = []
    own = compiler.finish

    def finish(compilation: Compilation, variants: Iterable[Variant] | None = None) -> None:
        begun.append(executor._can_chain)
        own(compilation, variants)

    monkeypatch.setattr(compiler, "finish", finish)
    executor.compile_ahead(compiler)
    compiler.wait()
    assert begun == [False, False, True], "the small steps, those with drafts, all others"
    assert executor._can_chain
    executor.close()


def test_a_model_that_speculates_is_ready_with_the_kernels_of_drafts(device: Device) -> None:
    _, executor = device_core(device, layers=1)
    compiler = Compiler(device.torch)
    executor.compile_ahead(compiler, speculates=True)
    assert executor._can_chain
    assert executor._graphs is not None
    assert set(executor._graphs.chained_variants(executor._max_tokens)) <= compiler.first
    compiler.cancel()
    executor.close()


def test_compiling_keeps_no_closed_executor(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel takes seconds to compile, and the memory of an unloaded model is needed at once."""
    core, executor = device_core(device, layers=1)
    compiler, goes_on = Compiler(device.torch), Event()
    own = compiler.finish

    def finish(compilation: Compilation, variants: Iterable[Variant] | None = None) -> None:
        if compilation.in_background:
            goes_on.wait(60)
        own(compilation, variants)

    monkeypatch.setattr(compiler, "finish", finish)
    executor.compile_ahead(compiler)
    executor.close()
    kept = weakref.ref(executor)
    del core, executor
    gc.collect()
    assert kept() is None
    goes_on.set()
    compiler.wait()
