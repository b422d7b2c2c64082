"""The sampling settings that a model's own files ask for: read, checked, and used where the caller says nothing."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import gguf
import pytest
from transformers import GenerationConfig

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.model_text import ModelText
from antiphon.runtime.loading.sampling_defaults import SamplingDefaults
from support.models.tiny_model import write_folder, write_gguf

STANDARD = {"temperature": 0.7, "top_p": 0.95}


def folder_with(path: Path, config: dict[str, Any]) -> str:
    folder = write_folder(path / "model")
    (folder / "generation_config.json").write_text(json.dumps(config))
    return str(folder)


def settings(reference: str) -> dict[str, Any]:
    """The same from the side with the weights and from the server's text side."""
    loaded = load_model(reference).sampling
    assert ModelText.load(reference).sampling == loaded
    return loaded.settings


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, STANDARD),
        ({"eos_token_id": 7, "do_sample": True}, STANDARD),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.9}, {"temperature": 0.6, "top_p": 0.9}),
        ({"temperature": 0.6, "top_k": 20, "min_p": 0.05}, {"temperature": 0.6, "top_k": 20, "min_p": 0.05}),
        ({"do_sample": True, "top_k": 64, "top_p": 0.95}, {"temperature": 1.0, "top_k": 64, "top_p": 0.95}),
        ({"do_sample": False}, {"temperature": 0.0}),
        (
            {"do_sample": False, "temperature": 0.6, "repetition_penalty": 1.1},
            {"temperature": 0.0, "repetition_penalty": 1.1},
        ),
        ({"repetition_penalty": 1.1}, {**STANDARD, "repetition_penalty": 1.1}),
        ({"temperature": None, "top_p": None}, STANDARD),
        ({"temperature": 0.5, "top_k": -1}, {"temperature": 0.5, "top_k": 0}),
    ],
)
def test_a_folder(tmp_path: Path, config: dict[str, Any], expected: dict[str, Any]) -> None:
    assert settings(folder_with(tmp_path, config)) == expected


def test_a_file_that_transformers_wrote(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    GenerationConfig(do_sample=True, temperature=0.3, top_p=0.8, top_k=20, repetition_penalty=1.05).save_pretrained(
        folder
    )
    expected = {"temperature": 0.3, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05}
    assert settings(str(folder)) == expected


def test_a_gguf(tmp_path: Path, tiny_gguf: Path) -> None:
    def describe(writer: gguf.GGUFWriter) -> None:
        writer.add_sampling_temp(0.35)
        writer.add_sampling_top_k(20)
        writer.add_sampling_top_p(0.95)
        writer.add_sampling_min_p(0.01)
        writer.add_sampling_penalty_repeat(1.05)
        writer.add_sampling_mirostat(0)

    path = str(write_gguf(tmp_path / "model.gguf", describe=describe))
    stated = {"temperature": 0.35, "top_k": 20, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.05}
    assert settings(path) == stated  # not 0.349999994, the nearest 32-bit float
    assert settings(str(tiny_gguf)) == STANDARD


@pytest.mark.parametrize("value", [-1, 1000, "warm", True, [0.5], float("nan"), float("inf")])
def test_a_value_that_cannot_be_used_is_reported_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, value: object
) -> None:
    with caplog.at_level(logging.WARNING):
        found = load_model(folder_with(tmp_path, {"temperature": value, "top_p": 0.5})).sampling.settings
    assert found == {"temperature": 1.0, "top_p": 0.5}
    assert "generation_config.json: temperature is " in caplog.text and "ignored" in caplog.text


def test_what_the_caller_gives_comes_first() -> None:
    defaults = SamplingDefaults({"temperature": 0.6, "top_k": 20}, "generation_config.json")
    assert defaults.params(temperature=0, seed=3, max_tokens=9) == SamplingParams(0, 20, seed=3, max_tokens=9)
    with pytest.raises(InvalidRequestError, match="temperature is -1"):
        defaults.params(temperature=-1)


def test_without_a_seed_every_answer_has_another() -> None:
    defaults = SamplingDefaults()
    assert len({defaults.params().seed for _ in range(8)}) > 4
    assert defaults.params(seed=0).seed == 0


@pytest.mark.parametrize(
    ("stated", "given", "told"),
    [
        ({}, {}, "temperature 0.7, top_p 0.95 (default)"),
        ({}, {"temperature": 0.2, "seed": 3}, "temperature 0.2, top_p 0.95 (default)"),
        ({"temperature": 0.6, "top_k": 20}, {}, "temperature 0.6, top_k 20 (the GGUF file)"),
        (
            {"repetition_penalty": 1.1},
            {},
            "temperature 0.7, top_p 0.95 (default), repetition_penalty 1.1 (the GGUF file)",
        ),
        ({}, {"temperature": 0, "top_p": 0.5}, "temperature 0"),
    ],
)
def test_where_the_settings_come_from(stated: dict[str, Any], given: dict[str, Any], told: str) -> None:
    assert SamplingDefaults(stated, "the GGUF file").describe(given) == told


def test_the_engine_offers_them(tmp_path: Path) -> None:
    with Engine(folder_with(tmp_path, {"temperature": 0.6, "top_k": 20}), kv_bytes=1 << 22) as engine:
        params = engine.sampling_defaults(max_tokens=5)
        assert (params.temperature, params.top_k, params.top_p, params.max_tokens) == (0.6, 20, 1.0, 5)
        seeded = engine.sampling_defaults("model", seed=1, max_tokens=12)
        first, second = (engine.generate("hello", seeded)[0].text for _ in range(2))
        assert first == second
        assert SamplingParams().temperature == 0
