"""Transcription and embedding models of random weights."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.bench.random_models.random_model import RandomCheckpoint, random_model_of
from antiphon.errors import InvalidRequestError
from antiphon.models.base.model import Task
from antiphon.models.registry import build_model
from antiphon.runtime.frontend.engine import Engine
from support.models.random_encoders import BERT_SHAPES, WHISPER_SHAPES, random_bert, random_whisper

LAYERS = {"num_hidden_layers": 1, "encoder_layers": 1, "decoder_layers": 1}


@pytest.mark.parametrize(("name", "shape"), [*WHISPER_SHAPES.items(), *BERT_SHAPES.items()])
def test_every_shape_is_that_of_a_model(name: str, shape: dict[str, Any]) -> None:
    model = build_model(RandomCheckpoint(shape | LAYERS, device="meta"))
    assert model.task is (Task.TRANSCRIBE if name in WHISPER_SHAPES else Task.EMBED)


def test_texts_are_numbers() -> None:
    shape = BERT_SHAPES["bge-small"] | LAYERS | {"vocab_size": 64}
    with Engine(random_model_of("tiny", shape), device="cpu", kv_bytes=1 << 20) as engine:
        first, second = engine.embed(["1 2 3", "4"])
    assert len(first) == len(second) == 384 and list(first) != list(second)


def test_unknown_shapes() -> None:
    with pytest.raises(InvalidRequestError, match="no shape 'whisper-9'; there are: whisper-tiny"):
        random_whisper("whisper-9")
    with pytest.raises(InvalidRequestError, match="no shape 'bert'; there are: all-minilm-l6"):
        random_bert("bert")
