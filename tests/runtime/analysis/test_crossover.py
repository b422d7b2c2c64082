"""The batch from which on decoding is limited by operations, against a search over all batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.analysis.analysis import Analysis, Sizes, analyze_checkpoint
from antiphon.runtime.analysis.floors import PartFloor, crossover
from antiphon.runtime.analysis.report import crossovers
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.machine_limits import GivenLimits
from antiphon.weights.formats.open import open_checkpoint

MOST = 400


def searched(analysis: Analysis) -> dict[str, int | None]:
    """The first batch at which operations take at least as long as bytes, by section and for all."""
    found: dict[str, int | None] = {}
    phase = analysis.phases["decode"]
    for batch in range(1, MOST):
        floors = phase.of_batch(batch).floors(analysis.limits)
        totals = {**{str(section): floor for section, floor in floors.items()}, "all": PartFloor()}
        for floor in floors.values():
            totals["all"] += floor
        for name, floor in totals.items():
            if floor.seconds_of_operations >= floor.seconds_of_bytes * (1 - 1e-9):  # sums round
                found.setdefault(name, batch)
    return {name: found.get(name) for name in totals}


@pytest.mark.parametrize("context", [1, 60, 1500])
@pytest.mark.parametrize("macs", [0.3e9, 1e9, 7e9, 31e9])
def test_the_first_batch_of_a_search(tiny_llama: Path, context: int, macs: float) -> None:
    config = EngineConfig(device="cpu", repack=False)
    analysis = analyze_checkpoint(
        "tiny", open_checkpoint(tiny_llama), Sizes(context=context), config, GivenLimits(1e9, macs)
    )
    assert analysis.limits == MachineLimits(1e9, macs, 0.0) and not analysis.is_measured
    expected, found = searched(analysis), crossovers(analysis.phases["decode"], analysis.limits)
    assert found.keys() == expected.keys()
    for name, batch in found.items():
        assert (batch if batch is None or batch < MOST else None) == expected[name], name


def test_the_search_finds_all_three_kinds_of_answer(tiny_llama: Path) -> None:
    """So that the comparison above is one of numbers."""
    config = EngineConfig(device="cpu", repack=False)
    answers: set[object] = set()
    for macs in (1e9, 7e9):
        given = GivenLimits(1e9, macs)
        answers |= set(searched(analyze_checkpoint("t", open_checkpoint(tiny_llama), Sizes(), config, given)).values())
    assert None in answers and 1 in answers and any(isinstance(n, int) and n > 1 for n in answers)


def test_equal_times_count_as_operations() -> None:
    def floor(rows: int, weights: float, keys: float, computing: float) -> PartFloor:
        return PartFloor(seconds_of_bytes=weights + rows * keys, seconds_of_operations=rows * computing)

    for weights, keys, computing, expected in ((6.0, 1.0, 3.0, 3), (6.0, 3.0, 3.0, None), (0.5, 1.0, 3.0, 1)):
        assert crossover(*(floor(rows, weights, keys, computing) for rows in (1, 2))) == expected
    for batch in range(1, 200):  # divisions that round: 0.1 * 3 > 0.3
        assert crossover(*(floor(rows, 0.1 * batch, 0.0, 0.1) for rows in (1, 2))) == batch
