"""An engine measured in this process: figures that agree with each other, random weights, and the two commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon import ops
from antiphon.bench.engine.engine_bench import EngineWorkload, bench_latency, bench_throughput
from antiphon.bench.engine.engine_table import engine_table
from antiphon.bench.engine.floors import decode_floor, prefill_floor, shape_program
from antiphon.bench.random_models.random_model import SHAPES, RandomCheckpoint, random_model, random_model_of
from antiphon.errors import InvalidRequestError
from antiphon.models.registry import build_model
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import LoadedModel
from support.models.tiny_model import CONFIG
from support.programs.command_line import Invoke, invoker

SHAPE: dict[str, Any] = CONFIG | {"tie_word_embeddings": True}


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    return invoker(monkeypatch, capfdbinary)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return random_model_of("tiny", SHAPE)


def test_latency_of_each_batch_size(loaded: LoadedModel) -> None:
    result = bench_latency(loaded, EngineWorkload(8, 6, temperature=0.6), [1, 3], rounds=2)
    assert [one["batch"] for one in result["figures"]] == [1, 3]
    for one in result["figures"]:
        assert one["steps"] >= 2 * 4  # of five tokens after the first, one may share a step with another's prompt
        assert 0 < one["device_ms"] <= one["step_ms"]
        assert one["delivered_ms"] > 0 < one["first_token_ms"]
        assert one["tokens_per_second"] == pytest.approx(one["batch"] / one["delivered_ms"] * 1e3)
    assert json.loads(json.dumps(result)) == result
    table = engine_table(result).splitlines()
    assert [line.split()[0] for line in table[-3:]] == ["BATCH", "1", "3"]


def test_throughput_counts_every_token(loaded: LoadedModel) -> None:
    result = bench_throughput(loaded, EngineWorkload(8, 5), num_prompts=7, max_running=3)
    [one] = result["figures"]
    assert (one["input_tokens"], one["output_tokens"]) == (7 * 8, 7 * 5)
    assert one["output_tokens_per_second"] == pytest.approx(35 / one["seconds"])
    assert 0 < one["device_share"] <= 1
    assert "OUTPUT TOK/S" in engine_table(result)


def test_drafted_tokens_are_counted_and_shown(loaded: LoadedModel) -> None:
    plain = bench_throughput(loaded, EngineWorkload(8, 40), num_prompts=2, max_running=1)
    assert plain["figures"][0]["drafted_tokens"] == 0 and "DRAFTED" not in engine_table(plain)
    result = bench_throughput(loaded, EngineWorkload(8, 40, speculate="ngram"), num_prompts=2, max_running=1)
    [one] = result["figures"]
    assert one["output_tokens"] == 2 * 40 and one["drafted_tokens"] >= one["accepted_tokens"] >= 0
    assert "speculating (ngram)" in engine_table(result)
    one |= {"drafted_tokens": 5, "accepted_tokens": 3}  # whether drafts pay on this machine is not known
    heading, values = engine_table(result).splitlines()[-2:]
    assert heading.split()[-2:] == ["DRAFTED", "ACCEPTED"] and values.split()[-2:] == ["5", "3"]


def test_more_tokens_than_the_model_takes(loaded: LoadedModel) -> None:
    limit = loaded.model.max_positions
    with pytest.raises(InvalidRequestError, match=f"are {limit + 1}; model 'tiny' takes {limit}"):
        bench_latency(loaded, EngineWorkload(limit, 1), [1])


def test_too_few_output_tokens(loaded: LoadedModel) -> None:
    with pytest.raises(InvalidRequestError, match="1 output tokens are too few"):
        bench_latency(loaded, EngineWorkload(8, 1), [2])


def test_prompts_are_new_each_time_and_nothing_is_cached(loaded: LoadedModel) -> None:
    workload = EngineWorkload(32, 1)
    assert workload.prompts(2, 200, "a") == workload.prompts(2, 200, "a") != workload.prompts(2, 200, "b")


def test_random_weights_generate_numbers(loaded: LoadedModel) -> None:
    with Engine(loaded) as engine:
        [first], [second] = (engine.generate([[1, 2, 3]]) for _ in range(2))
    assert first.text == second.text == "".join(f" {token}" for token in first.token_ids)
    assert len(first.token_ids) > 1


def test_a_random_checkpoint_is_the_same_for_a_seed() -> None:
    name, shape = "model.layers.0.mlp.up_proj.weight", (8, 4)
    one, two, other = (RandomCheckpoint(SHAPE, seed).stored(name, shape).data for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_builds(name: str) -> None:
    """With one layer and a small vocabulary, so that it is quick."""
    metadata = SHAPES[name] | {"num_hidden_layers": 1, "vocab_size": 64, "max_position_embeddings": 64}
    checkpoint = RandomCheckpoint(metadata)
    model = build_model(checkpoint)
    assert checkpoint.unused() == []
    assert model.vocab_size == 64
    assert ("lm_head.weight" in checkpoint.tensors()) is not metadata["tie_word_embeddings"]


def test_an_unknown_shape_names_the_others() -> None:
    with pytest.raises(InvalidRequestError, match=r"no shape 'gpt-9'; there are: qwen3-0\.6b"):
        random_model("gpt-9")


def test_the_commands_on_a_model(invoke: Invoke, tiny_llama: Path, tmp_path: Path) -> None:
    lengths = ["--input-len", "6", "--output-len", "4"]
    file = tmp_path / "latency.json"
    answer = invoke("bench", "latency", str(tiny_llama), "--batch-sizes", "1,2", *lengths, "--output", str(file))
    assert answer.code == 0, answer.err
    written = json.loads(file.read_text())
    assert answer.out.rstrip() == engine_table(written)
    assert len(written["figures"]) == 2
    answer = invoke("bench", "throughput", str(tiny_llama), "--num-prompts", "3", *lengths)
    assert answer.code == 0, answer.err
    assert "OUTPUT TOK/S" in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["latency"], "give a model or --random-weights"),
        (["throughput", "x", "--random-weights", "qwen3-0.6b"], "and not both"),
        (["latency", "--random-weights", "gpt-9"], "there is no shape 'gpt-9'"),
        (["latency", "x", "--batch-sizes", "1,two"], "--batch-sizes is '1,two'"),
    ],
)
def test_wrong_arguments(invoke: Invoke, arguments: list[str], message: str) -> None:
    answer = invoke("bench", *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_floors_of_a_shape() -> None:
    """At 4.40 TB/s and 787 TFLOP/s: 3.44 ms for the weights of the 8B shape, and 0.27 for those of the 0.6B one."""
    limits = MachineLimits(4.40e12, 787e12 / 2, 0.0)
    for shape, milliseconds in (("qwen3-8b", 3.44), ("qwen3-0.6b", 0.271)):
        program = shape_program(shape)
        assert decode_floor(program, 1, 0, limits) * 1e3 == pytest.approx(milliseconds, rel=0.002)
        keys = decode_floor(program, 32, 512, limits) - decode_floor(program, 1, 0, limits)
        layers = SHAPES[shape]["num_hidden_layers"]
        tokens = 32 * (513 + 1) - (1 + 1)  # seen, the new one included, and written
        assert keys == pytest.approx(tokens * layers * 2 * 8 * 128 * 2 / 4.40e12, rel=0.001)
        one, many = (prefill_floor(program, count, 1024, limits) for count in (1, 64))
        assert 0.9 * 64 * one < many < 64 * one  # operations, but for the head of a single prompt


@pytest.mark.skipif("native" not in ops.available_backends(), reason="needs batch-invariant kernels")
def test_the_batch_invariant_mode_is_measured(invoke: Invoke, tiny_llama: Path) -> None:
    lengths = ["--input-len", "6", "--output-len", "3", "--device", "cpu"]
    answer = invoke("bench", "latency", str(tiny_llama), *lengths, "--batch-invariant")
    assert answer.code == 0, answer.err
    assert "native backend, batch-invariant; " in answer.out
    with ops.use_backend("reference"):
        answer = invoke("bench", "latency", str(tiny_llama), *lengths, "--batch-invariant")
    assert answer.code != 0 and "batch-invariant mode needs the native kernels" in answer.err
