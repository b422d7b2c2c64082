"""Structured output through the whole engine."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from antiphon import Engine, GrammarSpec, SamplingParams
from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError
from antiphon.runtime.loading.loading import LoadedModel
from support.text.structured_schemas import TASKS

OPTIONS = dict(kv_bytes=8 << 20, key_type="fp32", value_type="fp32")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_every_kind_of_constraint_beside_free_text(tiny_loaded: LoadedModel) -> None:
    """A random model says whatever it likes, within the grammar; a free request in the same batch is left alone."""
    params = SamplingParams(max_tokens=80, temperature=2.0, ignore_eos=True)
    with Engine(tiny_loaded, **OPTIONS) as engine:  # type: ignore[arg-type]
        (free,) = engine.generate([[1, 2, 3]], params)
        beside = engine.stream([1, 2, 3], params)
        people = [
            answer
            for seed in range(6)
            for answer in engine.generate(
                "hello",
                SamplingParams(max_tokens=80, temperature=2.0, seed=seed),
                grammar=GrammarSpec(json_schema=PERSON),
            )
        ]
        (number,) = engine.generate("hello", params, grammar=GrammarSpec(regex=r"[0-9]{3}-[a-f]{2}"))
        samples = engine.generate("hello", params, n=4, grammar=GrammarSpec(choice=("yes", "no", "maybe")))
        assert beside.wait().token_ids == free.token_ids
    for answer in people:
        assert answer.finish_reason is FinishReason.STOP
        jsonschema.validate(json.loads(answer.text), PERSON)
    assert re.fullmatch(r"[0-9]{3}-[a-f]{2}", number.text)
    assert {answer.text for answer in samples} <= {"yes", "no", "maybe"}


@pytest.mark.parametrize(
    "broken",
    [
        dict(json_schema={"type": "nonsense"}),
        dict(regex="("),
        dict(json_schema={"allOf": [{"const": 1}, {"const": 2}]}),
    ],
)
def test_a_bad_constraint_fails_alone(tiny_loaded: LoadedModel, broken: dict[str, object]) -> None:
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    with Engine(tiny_loaded, **OPTIONS) as engine:  # type: ignore[arg-type]
        (expected,) = engine.generate([[1, 2, 3]], params)
        running = engine.stream([1, 2, 3], params)
        with pytest.raises(AntiphonError):
            engine.generate("hello", params, grammar=GrammarSpec(**broken))  # type: ignore[arg-type]
        assert running.wait().token_ids == expected.token_ids


@pytest.mark.long("a real model answers twenty schemas")
@pytest.mark.slow
@pytest.mark.weights
def test_json_of_a_real_model_validates(soak: bool) -> None:
    """Answers on each of twenty bounded schemas; every answer that ended by itself validates."""
    ended, samples_each = 0, 10 if soak else 1
    with Engine("qwen2.5-coder-0.5b", kv_bytes=256 << 20, max_running=20) as engine:
        streams = []
        for case in TASKS:
            params = SamplingParams(max_tokens=160, temperature=0.8, seed=100)
            grammar = GrammarSpec(json_schema=case.schema)
            prompt = [{"role": "user", "content": case.prompt}]
            streams.append((case, engine.stream_samples(prompt, params, n=samples_each, grammar=grammar)))
        for case, samples in streams:
            for stream in samples:
                answer = stream.wait()
                if answer.finish_reason is FinishReason.STOP:
                    ended += 1
                    jsonschema.validate(json.loads(answer.text), case.schema)
    assert len(TASKS) == 20
    print(f"{ended} of {20 * samples_each} answers ended by themselves")
    assert ended >= 19 * samples_each
