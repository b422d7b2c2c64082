"""Random models whose matrices are in Q4_K: they load, compute, and their weights are of the usual size."""

from __future__ import annotations

from antiphon.bench.random_models.random_model import DEVIATION, SHAPES, RandomCheckpoint, random_model_of
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.frontend.engine import Engine
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TensorType

SHAPE = SHAPES["qwen3-0.6b"] | {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 320,
}  # fmt: skip


def test_blocks_have_the_deviation_of_floats() -> None:
    stored = RandomCheckpoint(SHAPE, in_blocks=True).stored("a.weight", (64, 256))
    assert stored.type is TensorType.Q4_K and stored.data.numel() == 64 * 144
    values = dequantize(stored.data.view(64, -1), stored.type).float()
    assert 0.5 * DEVIATION < float(values.std()) < 4 * DEVIATION
    assert abs(float(values.mean())) < 2 * DEVIATION


def test_a_model_in_blocks_answers() -> None:
    loaded = random_model_of("tiny", SHAPE, in_blocks=True)
    assert "Q4_K" in loaded.report.line()
    with Engine(loaded, device="cpu", kv_bytes=4 << 20) as engine:
        (answer,) = engine.generate(["1 2 3"], SamplingParams(temperature=0.0, max_tokens=5))
    assert len(answer.token_ids) == 5
