"""The kernels of decode steps are known before a step runs, and can be compiled for a card that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from triton import knobs
from triton.runtime.driver import driver

from antiphon.executor.device.ahead import compile_in_order, decode_sizes
from antiphon.executor.device.buckets import chained_size, row_bucket, split_count
from antiphon.executor.device.graphs import DecodeGraphs
from antiphon.ops.triton import is_interpreted
from antiphon.ops.triton.ahead import compiler as ahead
from antiphon.ops.triton.ahead.compiler import AheadCompiler, Compilation
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.ahead.worker import TargetDriver
from antiphon.ops.triton.launch import Card
from antiphon.ops.triton.program.choice import Draw
from support.engine.meta_steps import meta_model, meta_recording

MAX_TOKENS = 2048


def make_graphs(max_rows: int, **changes: Any) -> DecodeGraphs:
    """Of a model without values."""
    model = meta_model(**{"num_hidden_layers": 1, "vocab_size": 2048} | changes)
    recording, store = meta_recording(model, max_rows, MAX_TOKENS)
    return DecodeGraphs(recording, store, max_rows, 2048, torch.bfloat16)


@pytest.mark.parametrize(("max_rows", "kv_heads"), [(128, 3), (20, 9), (1, 3)])
def test_no_step_has_another_kernel(max_rows: int, kv_heads: int) -> None:
    graphs = make_graphs(max_rows, num_key_value_heads=kv_heads)
    known = {variant for _, variants in graphs.variants(MAX_TOKENS) for variant in variants}
    for rows in sorted({row_bucket(count, max_rows) for count in range(1, max_rows + 1)}):
        for splits in sorted({split_count(rows, kv_heads, longest) for longest in range(1, MAX_TOKENS, 16)}):
            for draw in Draw:
                missed = set(graphs._lower(rows, splits, draw).variants()) - known
                assert not missed, (rows, splits, draw, [variant.text() for variant in missed])


@pytest.mark.parametrize(("max_rows", "kv_heads"), [(40, 3), (20, 1)])
@pytest.mark.long("the kernels of many steps are listed")
def test_no_step_with_drafts_has_another_kernel(max_rows: int, kv_heads: int) -> None:
    graphs = make_graphs(max_rows, num_key_value_heads=kv_heads)
    known = set(graphs.chained_variants(MAX_TOKENS))
    for rows in range(2, 17):
        for longest in range(1, MAX_TOKENS, 61):
            count, splits = chained_size(rows, max_rows, kv_heads, longest)
            for draw in Draw:
                missed = set(graphs._lower(count, splits, draw, is_chained=True).variants()) - known
                assert not missed, (count, splits, draw, [variant.text() for variant in missed])


def test_small_steps_come_first() -> None:
    sizes = [rows for rows, _ in decode_sizes(256, 8, 4096)]
    assert sizes == sorted(sizes) and sizes[0] == 1 and sizes[-1] > 128
    assert len(sizes) < 60, "each is lowered before a model is ready"


class FakeCompiler:
    """Keeps the order of what happens."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def begin(self, variants: Iterable[Variant]) -> Compilation:
        self.events.append("begin " + " ".join(variant.name for variant in variants))
        return Compilation({}, [], False)

    def finish(self, _: Compilation) -> None:
        self.events.append("finish")

    def compile_in_background(self, *groups: tuple[Iterable[Variant], Callable[[], None] | None]) -> None:
        for variants, then in groups:
            self.events.append("background " + " ".join(variant.name for variant in variants))
            if then is not None:
                then()


@pytest.mark.parametrize("speculates", [False, True])
def test_order(speculates: bool) -> None:
    """A model is ready with the kernels of prompts and small steps, and of steps with drafts if it speculates; larger
    steps are lowered while they compile.
    """

    def variants(*names: str) -> list[Variant]:
        return [Variant(f"module:{name}", (), ()) for name in names]

    compiler = FakeCompiler()

    def steps() -> Iterable[tuple[int, list[Variant]]]:
        yield 1, variants("a", "b")
        yield 16, variants("b", "c")
        yield 24, variants("c", "d")
        compiler.events.append("lowered")
        yield 256, variants("a", "e")

    compile_in_order(
        compiler,  # type: ignore[arg-type]
        variants("p", "a"),
        iter(steps()),
        variants("a", "e", "f"),
        speculates,
        "a model",
        lambda: compiler.events.append("chained"),
    )
    if speculates:
        assert compiler.events == ["begin p a b c e f", "lowered", "finish", "chained", "background d"]
    else:
        assert compiler.events == ["begin p a b c", "lowered", "finish", "background e f", "chained", "background d"]


@pytest.mark.slow
@pytest.mark.skipif(is_interpreted(), reason="kernels are compiled by Triton, not interpreted")
def test_the_kernels_of_a_step_compile_without_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes compile them, this one reads them, and the launches themselves need nothing more."""
    found: list[tuple[str, bool]] = []

    def listen(*, src: Any, cache_hit: bool, **_: Any) -> None:
        found.append((src.name, cache_hit))

    monkeypatch.setattr(ahead, "card", lambda device: Card(90, 132))
    monkeypatch.setattr(ahead, "process_count", lambda is_nice: 2)
    monkeypatch.setitem(vars(knobs.cache), "dir", str(tmp_path))
    monkeypatch.setattr(knobs.compilation, "listener", listen)
    monkeypatch.setattr(driver, "_active", TargetDriver(90))
    graphs = make_graphs(1, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2)
    graphs._card = Card(90, 132)
    compiler = AheadCompiler(torch.device("cpu"), read=lambda variant, loads: ahead.read_kernel(variant, False))
    step = graphs._lower(1, 2, Draw.PLAIN)
    begun = compiler.begin(step.variants())
    compiler.finish(begun)
    assert {"vector_product", "decode_attention", "gather_scaled", "decode_inputs"} <= {name for name, _ in found}
    for launch in step.launches:
        launch.kernel.warmup(*launch.arguments, grid=launch.grid, **launch.keywords)  # type: ignore[union-attr]
    assert len(found) == len(begun.missing) and all(is_hit for _, is_hit in found), found
