"""Random weights as files: what a server loads is the random model itself."""

from __future__ import annotations

from pathlib import Path

from antiphon.bench.random_models.random_model import SHAPES, random_model_of
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.frontend.engine import Engine
from support.models.random_files import write_random_model

SMALL = SHAPES["qwen3-0.6b"] | {
    "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 300, "head_dim": 32,
    "num_attention_heads": 2, "num_key_value_heads": 1,
}  # fmt: skip


def test_the_files_answer_as_the_random_model(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "small", SMALL, seed=3)
    params = SamplingParams(max_tokens=6, ignore_eos=True, allowed_tokens=frozenset(range(256, 299)))
    options = dict(kv_bytes=8 << 20, device="cpu")
    with Engine(str(folder), **options) as engine:
        [written] = engine.generate([[7, 8, 9]], params)
    with Engine(random_model_of("random", SMALL, seed=3), **options) as engine:
        [made] = engine.generate([[7, 8, 9]], params)
    assert written.token_ids == made.token_ids
    assert written.text == "".join(f" {token - 256}" for token in written.token_ids)
