"""The bytes that weights will have on a GPU, against weights that are repacked here."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops.triton.quantised.forms import FORMS
from antiphon.ops.triton.quantised.planned import planned_bytes
from antiphon.ops.triton.quantised.repacking import repack, repacked_bytes
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart


def part_of(type: TensorType, rows: int, columns: int) -> WeightPart:
    return WeightPart(type, rows, torch.zeros(rows, type.row_bytes(columns), dtype=torch.uint8))


@pytest.mark.parametrize("type", FORMS, ids=lambda type: type.name)
@pytest.mark.parametrize(("rows", "columns"), [(8, 256), (13, 512), (1, 768), (100, 256)])
def test_repacked_blocks(type: TensorType, rows: int, columns: int) -> None:
    part = part_of(type, rows, columns)
    assert repacked_bytes(type, rows, columns) == repack(part.data, type, columns).nbytes


def test_a_row_that_is_no_whole_tile_is_padded() -> None:
    part = part_of(TensorType.Q8_0, 9, 96)
    assert repacked_bytes(TensorType.Q8_0, 9, 96) == repack(part.data, TensorType.Q8_0, 96).nbytes


def test_runs_of_one_type_are_repacked_together() -> None:
    parts = [
        part_of(type, rows, 256) for type, rows in ((TensorType.Q4_K, 5), (TensorType.Q4_K, 6), (TensorType.Q6_K, 3))
    ]
    expected = repacked_bytes(TensorType.Q4_K, 11, 256) + repacked_bytes(TensorType.Q6_K, 3, 256)
    assert planned_bytes(Weight(tuple(parts), 256), None, torch.bfloat16) == expected


@pytest.mark.parametrize(
    ("type", "target", "expected"),
    [
        (TensorType.F32, None, 10 * 64 * 2),
        (TensorType.BF16, None, 10 * 64 * 2),
        (TensorType.IQ4_NL, None, 10 * 64 * 2),  # no kernel reads it
        (TensorType.F16, TensorType.F8_E4M3, 10 * (64 + 4)),
        (TensorType.F16, TensorType.I8, repacked_bytes(TensorType.Q8_0, 10, 64)),
        (TensorType.F32, TensorType.Q4_1, repacked_bytes(TensorType.Q4_1, 10, 64)),
        (TensorType.IQ4_NL, TensorType.Q4_1, 10 * 64 * 2),
    ],
)
def test_floats_and_what_they_are_quantised_to(type: TensorType, target: TensorType | None, expected: int) -> None:
    assert planned_bytes(Weight((part_of(type, 10, 64),), 64), target, torch.bfloat16) == expected


def test_rows_that_are_no_whole_blocks_stay_floats() -> None:
    weight = Weight((part_of(TensorType.F32, 10, 48),), 48)
    assert planned_bytes(weight, TensorType.Q8_0, torch.float16) == 10 * 48 * 2
