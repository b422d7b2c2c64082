"""An engine whose steps are recorded answers as one whose are not, under any traffic; and tells where its time went."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from antiphon import Engine, SamplingParams
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.ops import native
from antiphon.runtime.loading.loading import LoadedModel, load_model
from support.engine.engine_client import write_encoder
from support.engine.scripted import scripted

pytestmark = pytest.mark.skipif(not native.available(), reason="programs need the native extension")

OPTIONS: dict[str, Any] = dict(kv_bytes=8 << 20, key_type="fp32", value_type="fp32", max_running=6, chunk_tokens=16)
#: Greedy, random, penalised, with log-probabilities, short and long: steps of every kind follow each other.
KINDS = [
    SamplingParams(max_tokens=24, ignore_eos=True),
    SamplingParams(max_tokens=40, temperature=0.9, seed=7, ignore_eos=True),
    SamplingParams(max_tokens=9, temperature=1.0, top_p=0.8, seed=3, ignore_eos=True),
    SamplingParams(max_tokens=17, temperature=0.7, top_k=12, min_p=0.01, seed=5, ignore_eos=True),
    SamplingParams(max_tokens=12, repetition_penalty=1.3, presence_penalty=0.2, ignore_eos=True),
    SamplingParams(max_tokens=15, logprobs=3, ignore_eos=True),
    SamplingParams(max_tokens=1),
]
PROMPTS = [[(i * 31 + j * 7) % 250 for j in range(length)] for i, length in enumerate((3, 40, 1, 17, 5, 64, 9) * 3)]


def executor_of(engine: Engine) -> DecoderExecutor:
    executor = engine._core.slots[engine.models[0]].executor
    assert isinstance(executor, DecoderExecutor)
    return executor


def answers(loaded: LoadedModel, **options: Any) -> list[tuple[list[int], str, Any]]:
    params = [KINDS[i % len(KINDS)] for i in range(len(PROMPTS))]
    with Engine(loaded, **(OPTIONS | options)) as engine:
        found = [(a.token_ids, a.text, a.logprobs) for a in engine.generate(PROMPTS, params)]
        assert (executor_of(engine).program is not None) == options.get("record", True)
        return found


def test_answers_do_not_depend_on_recording(tiny_loaded: LoadedModel) -> None:
    assert answers(tiny_loaded) == answers(tiny_loaded, record=False)


def test_preempted_answers_neither(tiny_loaded: LoadedModel) -> None:
    options = dict(kv_bytes=160 << 10, slab_bytes=16 << 10, preemption="swap")
    assert answers(tiny_loaded, **options) == answers(tiny_loaded, record=False)


def test_forks_and_cancels_between_recorded_steps(tiny_loaded: LoadedModel) -> None:
    params = SamplingParams(max_tokens=400, temperature=0.8, seed=1, ignore_eos=True)
    with Engine(tiny_loaded, **OPTIONS) as engine:
        alone = engine.generate([5, 6, 7], SamplingParams(max_tokens=30, ignore_eos=True))[0].token_ids
        streams = engine.stream_samples([1, 2, 3, 4], params, n=3)
        for stream in streams:
            next(stream)
        beside: list[int] = []
        thread = threading.Thread(
            target=lambda: beside.extend(
                engine.generate([5, 6, 7], SamplingParams(max_tokens=30, ignore_eos=True))[0].token_ids
            )
        )
        thread.start()
        for stream in streams:
            stream.cancel()
        thread.join(30)
        assert beside == alone


def test_an_encoder_is_recorded(tmp_path: Path) -> None:
    loaded = load_model(str(write_encoder(tmp_path / "encoder")))
    texts = ["hello there", "the", "hello hello hello"]
    with Engine(loaded, kv_bytes=1 << 20) as recorded, Engine(loaded, kv_bytes=1 << 20, record=False) as plain:
        for first, second in zip(recorded.embed(texts), plain.embed(texts), strict=True):
            assert first.tolist() == second.tolist()


def test_a_model_that_cannot_be_recorded_still_answers(caplog: pytest.LogCaptureFixture) -> None:
    loaded = scripted([7, 8, 9], [1, 2])
    with Engine(loaded, **OPTIONS) as engine:
        assert engine.generate([1, 2], SamplingParams(max_tokens=3, ignore_eos=True))[0].token_ids == [7, 8, 9]
    assert [line for line in caplog.messages if "operation by operation" in line] == [
        "ScriptedModel runs operation by operation: UnrecordableError: "
        "the forward takes .tolist of a tensor, outside ops and views"
    ]


def test_a_profile_adds_up(tiny_loaded: LoadedModel) -> None:
    with Engine(tiny_loaded, **OPTIONS) as engine:
        engine.start_profile()
        engine.generate(PROMPTS[:4], SamplingParams(max_tokens=20, ignore_eos=True))
        lines = engine.profile_lines()
        steps = list(engine._core.telemetry.steps)
    assert f"{len(steps)} steps of" in lines[0]
    rows = {line.split()[0]: line for line in lines[2:]}
    assert {"linear", "paged_attention", "rms_norm", "rotary+store_kv", "gather_rows", "embed"} <= set(rows)
    assert rows["gather_rows"].split()[1] == str(len(steps))
    assert "limits of this machine" in lines[-3]
    assert lines[-2].startswith("  microseconds of a step: plan")
    assert lines[-1].startswith("  outside the program:")
    native_seconds = sum(step.native_seconds for step in steps)
    assert 0 < native_seconds < sum(step.seconds for step in steps)


def test_a_profile_without_a_program_says_so(tiny_loaded: LoadedModel) -> None:
    with Engine(tiny_loaded, **OPTIONS, record=False) as engine:
        engine.start_profile()
        assert engine.profile_lines() == ["profile: no step has run"]
        engine.generate("hello", SamplingParams(max_tokens=3, ignore_eos=True))
        assert "there is no program" in engine.profile_lines()[1]
