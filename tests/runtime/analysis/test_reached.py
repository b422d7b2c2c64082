"""A measured prefill and decode: the native program's own counts are those of the analysis."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Task
from antiphon.ops import available_backends
from antiphon.runtime.analysis.analysis import DECODE, PREFILL, Sizes, analyze
from antiphon.runtime.analysis.reached import DECODED, check_can_run, measure
from antiphon.runtime.analysis.report import analysis_json, reached_lines
from antiphon.runtime.analysis.sections import Section
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import load_resolved
from antiphon.runtime.loading.machine_limits import GivenLimits
from antiphon.weights.catalog.resolve import resolve
from support.models.tiny_model import CONTEXT, HEAD_DIM, HEADS, LAYERS


@pytest.mark.skipif("native" not in available_backends(), reason="needs the native backend")
@pytest.mark.parametrize("batch", [1, 3])
def test_counts_of_the_program_are_those_of_the_analysis(tiny_llama: Path, batch: int) -> None:
    config, resolved = EngineConfig(device="cpu"), resolve(str(tiny_llama))
    analysis = analyze(resolved, Sizes(batch, 100, 70), config, GivenLimits(1e12, 1e12))
    prefill, decode = measure(load_resolved(resolved), analysis, config)
    assert (prefill.phase, decode.phase) == (PREFILL, DECODE)
    assert prefill.num_tokens == batch * 100
    assert (decode.num_steps, decode.num_tokens) == (DECODED, batch * DECODED)
    for reached in (prefill, decode):
        assert 0 < reached.floor_seconds < reached.seconds <= reached.total_seconds
        assert reached.share == reached.floor_seconds / reached.seconds
        assert reached.kinds is not None and sum(kind.seconds for kind in reached.kinds) < reached.seconds
    kinds = {kind.kind: kind for kind in prefill.kinds or []}
    # What C++ counted while it ran, beside what the recording says.
    floors = analysis.phases[PREFILL].floors(analysis.limits)
    assert kinds["paged_attention"].macs == floors[Section.CACHE].macs
    products = sum(floors[section].macs for section in (Section.PROJECTIONS, Section.MLP, Section.HEAD))
    assert sum(kind.macs for name, kind in kinds.items() if name.startswith("linear")) == products
    attention = next(kind for kind in decode.kinds or [] if kind.kind == "paged_attention")
    contexts = range(48, 48 + DECODED)  # whole blocks of 16 before 70 - 16
    assert attention.macs == batch * LAYERS * 2 * HEADS * HEAD_DIM * sum(context + 1 for context in contexts)
    assert attention.calls == LAYERS * DECODED
    phase = analysis.phases[DECODE]
    assert decode.floor_seconds == pytest.approx(
        sum(phase.after(context).floor(analysis.limits).seconds for context in contexts)
    )
    lines = list(reached_lines(analysis, [prefill, decode]))
    assert any(
        line.startswith(f"prefill, measured: {prefill.share:.0%} of its floor: {batch * 100} tok") for line in lines
    )
    figures = analysis_json(analysis, [prefill, decode])["reached"]
    assert figures["decode"]["share"] == decode.share
    assert figures["decode"]["kinds"]["paged_attention"]["calls"] == attention.calls


def test_a_context_at_the_end_of_what_the_model_takes(tiny_llama: Path) -> None:
    config, resolved = EngineConfig(device="cpu"), resolve(str(tiny_llama))
    analysis = analyze(resolved, Sizes(1, 5, CONTEXT - 1), config, GivenLimits(1e12, 1e12))
    _, decode = measure(load_resolved(resolved), analysis, config)
    assert decode.num_steps == DECODED


def test_only_models_that_generate_text_are_run() -> None:
    check_can_run("tiny", Task.GENERATE)
    with pytest.raises(
        UnsupportedError, match="tiny is an embedding model; --profile is for models that generate text"
    ):
        check_can_run("tiny", Task.EMBED)
