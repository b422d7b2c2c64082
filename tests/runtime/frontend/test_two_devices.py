"""An engine with models on two devices gives what each gives alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from antiphon.engine.sampling_params import SamplingParams
from antiphon.ops import Device
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import load_model

PROMPTS = [[3, 5, 7, 9], [4, 4, 2], [8, 1, 6, 2, 30]]
PARAMS = SamplingParams(max_tokens=24, temperature=0.8, seed=11, ignore_eos=True)


def test_answers_are_those_of_one_device(tiny_llama: Path, tiny_gguf: Path) -> None:
    first = load_model(str(tiny_llama), device="cpu")
    second = replace(load_model(str(tiny_gguf), device="cpu"), name="second")
    elsewhere = replace(second, device=replace(Device.parse("cpu"), torch=torch.device("cpu", 0)))
    with Engine(first, second, kv_bytes=8 << 20, device="cpu") as engine:
        expected = [engine.generate(PROMPTS, PARAMS, model=name) for name in engine.models]
    with Engine(first, elsewhere, kv_bytes=8 << 20, device="cpu") as engine:
        streams = [
            engine.stream(prompt, PARAMS, model=name) for name in (first.name, second.name) for prompt in PROMPTS
        ]
        got = [stream.wait() for stream in streams]
        figures = engine.figures()
        assert {name: values["total_bytes"] for name, values in figures["devices"].items()} == {
            "cpu": 8 << 20,
            "cpu:0": 8 << 20,
        }
        assert figures["arena"]["total_bytes"] == 16 << 20
        engine.unload(second.name)
        assert engine.generate(PROMPTS, PARAMS)[0].token_ids == expected[0][0].token_ids
    assert [answer.token_ids for answer in got] == [answer.token_ids for one in expected for answer in one]
