"""Batch-invariant mode through an engine, on a card: random weights of a real shape."""

from __future__ import annotations

import random

import pytest
import torch

from antiphon.bench.random_models.random_model import random_model
from antiphon.engine.sampling_params import SamplingParams
from antiphon.ops import Device
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.weight_forms import WeightOptions

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="the interpreter takes hours")

VOCABULARY, LENGTH = 151_936, 16
BATCHES = (7, 32, 256)
WATCHED = 3


def prompts() -> list[list[int]]:
    """Those that are watched have 1 to 1,100 tokens: more than one part of a context, and more than one chunk."""
    source = random.Random(0)
    lengths = [1100, 520, 1] + [source.randrange(1, 40) for _ in range(BATCHES[-1] - WATCHED)]
    return [[source.randrange(100, VOCABULARY) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize("quantize", [None, "q4"])
def test_answers_are_those_of_the_request_alone(quantize: str | None) -> None:
    """In every token and log-probability; chunked or whole, with the prefix cache or without."""
    loaded = random_model("qwen3-0.6b", WeightOptions(quantize=quantize), 0, Device.parse("cuda"))
    every = prompts()
    params = SamplingParams(max_tokens=LENGTH, ignore_eos=True, temperature=0.8, seed=1, logprobs=2)
    common = {"device": "cuda", "kv_bytes": 4 << 30, "batch_invariant": True}
    with Engine(loaded, config=EngineConfig(**common, prefix_caching=False, chunk_tokens=None)) as engine:
        expected = [engine.generate([prompt], params)[0] for prompt in every[:WATCHED]]
    with Engine(loaded, config=EngineConfig(**common, chunk_tokens=100)) as engine:
        for batch in BATCHES:
            answers = engine.generate(every[:batch], params)
            for index, alone in enumerate(expected):
                answer = answers[index]
                assert answer.token_ids == alone.token_ids, (batch, index)
                assert answer.logprobs == alone.logprobs and answer.top_logprobs == alone.top_logprobs, (batch, index)
            assert batch == BATCHES[0] or answers[0].cached_tokens > 0
