"""A new architecture is one file and one registry line: everything above the model follows from what it declares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import antiphon.models
from antiphon import Engine, SamplingParams
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import ARCHITECTURES
from antiphon.ops import native
from antiphon.runtime.loading.describe import describe, describe_programs
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.model_text import ModelText
from antiphon.runtime.loading.weight_forms import WeightOptions
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.types import TensorType
from support.models.tiny_model import EMBEDDING_ROWS, tiny_state, write_folder

FOLDER = Path(__file__).parents[1] / "support" / "architectures"
HIDDEN, HEADS, POSITIONS = 64, 4, 128
CONFIG: dict[str, Any] = {
    "model_type": "toy",
    "vocab_size": EMBEDDING_ROWS,
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "max_position_embeddings": POSITIONS,
}
PROMPTS = [[7, 30, 12], [55, 3], list(range(40, 61))]


def weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    state = {
        "embedding.weight": torch.randn(EMBEDDING_ROWS, HIDDEN, generator=generator),
        "norm.weight": 1 + 0.1 * torch.randn(HIDDEN, generator=generator),
        # Its likeliest tokens are printable characters, so that no answer ends early.
        "head.weight": tiny_state()["lm_head.weight"],
    }
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        state[f"{name}.weight"] = 0.2 * torch.randn(HIDDEN, HIDDEN, generator=generator)
    return state


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "toy", weights(), CONFIG)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy's file among those of `antiphon.models`, and its line in the registry."""
    monkeypatch.setattr(antiphon.models, "__path__", [*antiphon.models.__path__, str(FOLDER)])
    monkeypatch.setitem(ARCHITECTURES, "toy", ("toy_decoder", "ToyDecoder"))
    yield
    sys.modules.pop("antiphon.models.toy_decoder", None)


def expected_tokens(prompt: list[int], count: int) -> list[int]:
    """What the toy generates, greedily, in plain torch."""
    state, tokens = weights(), list(prompt)
    for _ in range(count):
        x = state["embedding.weight"][tokens]
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * state["norm.weight"]
        q, k, v = (
            (normed @ state[f"{name}.weight"].T).view(len(tokens), HEADS, -1).transpose(0, 1)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(0, 1).reshape(len(tokens), HIDDEN) @ state["o_proj.weight"].T
        tokens.append(int((x[-1] @ state["head.weight"].T).argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("record", [True, False])
def test_it_generates_through_the_engine(folder: Path, record: bool) -> None:
    options: dict[str, Any] = dict(kv_bytes=4 << 20, key_type="fp32", value_type="fp32", record=record)
    with Engine(str(folder), **options) as engine:
        answers = engine.generate(PROMPTS, SamplingParams(max_tokens=12))
        assert [answer.token_ids for answer in answers] == [expected_tokens(prompt, 12) for prompt in PROMPTS]
        executor = engine._core.slots[engine.models[0]].executor
        assert isinstance(executor, DecoderExecutor)
        assert (executor.program is not None) == (record and native.available())
        engine.unload(engine.models[0])
        assert engine.figures()["arena"]["lent_bytes"] == 0


def test_it_declares_a_decoder(folder: Path) -> None:
    model = load_model(str(folder)).model
    (part,) = model.parts()
    assert isinstance(part, TokenDecoder) and (part.owner, part.cross) == ("ToyDecoder", None)
    assert model.part(TokenDecoder) == part


@pytest.mark.skipif(not native.available(), reason="only the native backend quantises")
def test_its_weights_take_forms(folder: Path) -> None:
    forms = load_model(str(folder), options=WeightOptions(quantize="q4")).report.forms
    table = EMBEDDING_ROWS * HIDDEN * 4  # bytes of the embedding, and of the head
    assert {form.quantized for form in forms if form.stored_bytes == table} == {TensorType.Q8_0}
    assert {form.quantized for form in forms if form.stored_bytes != table} == {TensorType.Q4_1}


def test_it_is_described(folder: Path) -> None:
    facts = describe(resolve(str(folder)))
    assert (facts.architecture, facts.obstacle, facts.context) == ("toy", None, POSITIONS)
    assert facts.cache_groups == [f"self (full): 1 layers x {HEADS} heads x {HIDDEN // HEADS}"]
    assert facts.kv_bytes_per_token["fp16"] == 2 * HIDDEN * 2
    assert ModelText.load(str(folder)).max_tokens == POSITIONS


@pytest.mark.skipif(not native.available(), reason="programs need the native extension")
def test_its_program_is_described(folder: Path) -> None:
    lines = describe_programs(resolve(str(folder)))
    assert lines[0].startswith("program forward") and "cannot be recorded" not in lines[0]
