"""The decode step of a model that `antiphon info --program --device cuda` prints: its launches, costs and times."""

from __future__ import annotations

import re

import pytest
import torch

from antiphon import ops
from antiphon.bench.random_models.random_model import SHAPES, NumberTokenizer, RandomCheckpoint
from antiphon.executor.device.measured_step import MeasuredStep
from antiphon.executor.device.trial_rows import TrialRows
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import Device
from antiphon.ops.device import DeviceLimits
from antiphon.ops.program.floor import UniformStep
from antiphon.ops.triton.weights import prepare_weights
from antiphon.runtime.loading.describe import GivenLimits
from antiphon.runtime.loading.describe_step import step_lines
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import LoadReport
from antiphon.weights.types import TensorType
from support.kernels.triton_cases import error

VOCABULARY, CONTEXT = 300, 40
SMALL = {
    "hidden_size": 64, "intermediate_size": 128, "vocab_size": VOCABULARY, "head_dim": 32,
    "num_attention_heads": 2, "num_key_value_heads": 1,
}  # fmt: skip
#: Reads 1 GB and computes 1 GMAC in a second.
GIVEN = GivenLimits(1e9, 1e9)


@pytest.fixture
def device() -> Device:
    if torch.cuda.is_available():
        return Device.parse("cuda")
    return Device(torch.device("cpu"), ops.get_backend("triton"), torch.float16, DeviceLimits("a card", 0))


def load(device: Device, target: TensorType | None = None, layers: int = 2) -> LoadedModel:
    model = build_model(RandomCheckpoint(SHAPES["qwen3-0.6b"] | SMALL | {"num_hidden_layers": layers}))
    if not device.is_cpu:
        model.place(device.torch)
    for node in model.modules():
        node.set_compute_type(device.compute_type)
        node.prepare()
    weights = list(model.weights())
    prepare_weights(weights, quantize=lambda _: target, device=device.torch, dtype=device.compute_type)
    return LoadedModel("random", model, NumberTokenizer(VOCABULARY), None, frozenset(), LoadReport(), device=device)


def make_step(loaded: LoadedModel, rows: int) -> MeasuredStep:
    decoder = loaded.model.part(TokenDecoder)
    assert decoder is not None
    requests = TrialRows(decoder, rows, CONTEXT + 1, loaded.device.compute_type, loaded.device.torch)
    return MeasuredStep(decoder, loaded.device, requests, CONTEXT, VOCABULARY)


@pytest.mark.parametrize("target", [None, TensorType.Q8_0])
@pytest.mark.parametrize("rows", [1, 20, 70])
def test_the_costs_of_launches_are_those_of_the_recording(device: Device, rows: int, target: TensorType | None) -> None:
    loaded = load(device, target)
    step = make_step(loaded, rows)
    costs, instructions = step.costs(), step.recording.instructions
    keys = rows * (CONTEXT + 1)
    assert sum(cost.macs for cost in costs) == sum(
        rows * one.macs_per_row() + keys * one.macs_per_pair() for one in instructions
    )
    assert sum(cost.bytes for cost in costs) == loaded.bytes_per_step() + keys * sum(
        one.bytes_per_key() for one in instructions
    )


def test_the_step_gives_the_logits_of_the_forward_pass(device: Device) -> None:
    """After a prompt that the forward pass has read; and again, though every step makes the rows longer."""
    loaded, context = load(device, layers=1), 3
    decoder = loaded.model.part(TokenDecoder)
    assert decoder is not None
    requests = TrialRows(decoder, 2, context + 1, device.compute_type, device.torch)
    step = MeasuredStep(decoder, device, requests, context, VOCABULARY)
    tokens = torch.randint(VOCABULARY, (2, context + 1), generator=torch.Generator().manual_seed(0))
    with ops.use_backend("triton"), torch.inference_mode():
        decoder.forward(requests.batch(tokens[:, :-1]), requests.cache)
        expected = decoder.forward(requests.batch(tokens[:, -1:], context), requests.cache)
        first, again = step.run(tokens[:, -1]), step.run(tokens[:, -1])
    assert error(first, expected) < 2e-2
    assert torch.equal(first, again)


def test_the_table_of_a_step(device: Device) -> None:
    loaded = load(device)
    head, headings, *rows = step_lines(loaded, UniformStep(1, CONTEXT), GIVEN)
    assert head.startswith(f"decode step on {device.name} (") and "for 1 row after 40 tokens: 15 launches" in head
    cells = [re.split(r" {2,}", row.strip()) for row in rows]
    assert [cell[:2] for cell in cells[:4]] == [["inputs", "1"], ["embed", "1"], ["product", "2"], ["attention", "2"]]
    assert cells[3][2] == "decode_attention" and cells[3][3].endswith(" × 1 × 1")
    total = next(cell for cell in cells if cell[0] == "all")
    read = loaded.bytes_per_step() + 2 * (CONTEXT + 1) * 2 * 32 * 2
    # 1 GB/s: as many microseconds as thousands of bytes. No launch has more operations than bytes here.
    assert float(total[2]) == pytest.approx(read / 1e6, abs=1e-3)
    assert float(total[4]) == pytest.approx(read / 1e3, abs=0.1)
    if device.stream is None:
        assert "MEASURED" not in headings
    else:
        assert float(total[5].replace(",", "")) > 0 and rows[-1].startswith("as one graph")
