"""A new architecture is one file in `antiphon.models`: everything above it follows from what the file declares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import antiphon.models
from antiphon import Engine, SamplingParams
from antiphon.errors import UnsupportedError
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import architectures, model_class
from antiphon.ops import native
from antiphon.runtime.loading.describe import describe, describe_programs
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.model_text import ModelText
from antiphon.runtime.loading.weight_forms import WeightOptions
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.types import TensorType
from models.test_causal_lm import TOLERANCE, difference, pair, randomize, reference_logits
from support.architectures import registered
from support.kernels.paged import PagedRunner
from support.models.tiny_model import CHAT_TEMPLATE, tiny_tokenizer, vocabulary

HIDDEN, LAYERS, KV_HEADS, HEAD_DIM, POSITIONS = 64, 4, 2, 16, 128
VOCABULARY = len(vocabulary())
PROMPTS = [[7, 30, 12], [55, 3], list(range(40, 61))]


def smollm3() -> transformers.PretrainedConfig:
    return transformers.SmolLM3Config(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=KV_HEADS, max_position_embeddings=POSITIONS,
        no_rope_layers=[1, 0, 1, 0], tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
        pad_token_id=None,
    )  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def added() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def theirs() -> Any:
    return randomize(transformers.AutoModelForCausalLM.from_config(smollm3(), attn_implementation="eager"), 5)


@pytest.fixture(scope="module")
def folder(theirs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What transformers writes: the config, the weights and the tokenizer."""
    path = tmp_path_factory.mktemp("models") / "smollm3"
    theirs.save_pretrained(path)
    tiny_tokenizer().save(str(path / "tokenizer.json"))
    tokenizer_config = {"eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    return path


def test_its_logits_are_those_of_transformers() -> None:
    reference, ours = pair(smollm3)
    tokens = torch.randint(0, VOCABULARY, (41,), generator=torch.Generator().manual_seed(1)).tolist()
    runner, parts, start = PagedRunner(ours, 1, 48), [], 0
    for count in (7, 1, 16, 1, 16):
        parts += runner.step([(0, tokens[start : start + count], start)])
        start += count
    assert start == len(tokens)
    assert difference(torch.cat(parts), reference_logits(reference, tokens)) <= TOLERANCE
    ours.has_rotary = [True] * LAYERS  # type: ignore[attr-defined]
    (without,) = PagedRunner(ours, 1, 48).step([(0, tokens, 0)])
    assert difference(without, reference_logits(reference, tokens)) > 0.1, "the twist changes nothing"


@pytest.mark.parametrize("record", [True, False])
def test_it_generates_through_the_engine(folder: Path, theirs: Any, record: bool) -> None:
    """Several requests together get the tokens that transformers generates for each, greedily."""
    expected = [
        theirs.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0, len(prompt) :].tolist()
        for prompt in PROMPTS
    ]
    options: dict[str, Any] = dict(kv_bytes=4 << 20, key_type="fp32", value_type="fp32", record=record)
    with Engine(str(folder), **options) as engine:
        answers = engine.generate(PROMPTS, SamplingParams(max_tokens=24, ignore_eos=True))
        assert [answer.token_ids for answer in answers] == expected
        executor = engine._core.slots[engine.models[0]].executor
        assert isinstance(executor, DecoderExecutor)
        assert (executor.program is not None) == (record and native.available())
        engine.unload(engine.models[0])
        assert engine.figures()["arena"]["lent_bytes"] == 0


def test_it_declares_a_decoder(folder: Path) -> None:
    model = load_model(str(folder)).model
    (part,) = model.parts()
    assert isinstance(part, TokenDecoder) and (part.owner, part.cross) == ("SmolLM3", None)
    assert model.part(TokenDecoder) == part


@pytest.mark.skipif(not native.available(), reason="only the native backend quantises")
def test_its_weights_take_forms(folder: Path) -> None:
    forms = load_model(str(folder), options=WeightOptions(quantize="q4")).report.forms
    table = VOCABULARY * HIDDEN * 4  # bytes of the embedding, and of the head
    assert {form.quantized for form in forms if form.stored_bytes == table} == {TensorType.Q8_0}
    assert {form.quantized for form in forms if form.stored_bytes != table} == {TensorType.Q4_1}


def test_it_is_described(folder: Path) -> None:
    facts = describe(resolve(str(folder)))
    assert (facts.architecture, facts.obstacle, facts.context) == ("smollm3", None, POSITIONS)
    assert facts.cache_groups == [f"self (full): {LAYERS} layers x {KV_HEADS} heads x {HEAD_DIM}"]
    assert facts.kv_bytes_per_token["fp16"] == LAYERS * 2 * KV_HEADS * HEAD_DIM * 2
    assert ModelText.load(str(folder)).max_tokens == POSITIONS


@pytest.mark.skipif(not native.available(), reason="programs need the native extension")
def test_its_program_is_described(folder: Path) -> None:
    lines = describe_programs(resolve(str(folder)))
    assert lines[0].startswith("program forward") and "cannot be recorded" not in lines[0]


def test_its_file_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of any name is found by what its class declares; a class that declares nothing is no architecture."""
    names = architectures()
    assert names["smollm3"] is model_class("smollm3") and model_class("smollm3").__name__ == "SmolLM3"
    (tmp_path / "elsewhere.py").write_text(
        "from antiphon.models.llama import Llama\n"
        "class Renamed(Llama):\n    architectures = ('renamed-llama', 'renamed')\n"
        "class Helper(Renamed):\n    pass\n"
    )
    monkeypatch.setattr(antiphon.models, "__path__", [*antiphon.models.__path__, str(tmp_path)])
    assert model_class("renamed") is model_class("renamed-llama")
    assert set(architectures()) == {*names, "renamed", "renamed-llama"}
    assert model_class("llama").__name__ == "Llama"


@pytest.mark.parametrize("name", ["", "base", "registry", "whisper_encoder", "os", "../llama", "base.decoder", "Llama"])
def test_unknown_names_are_rejected(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"is not supported; known: bert, .*, llama, mistral"):
        model_class(name)
