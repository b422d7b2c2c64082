"""Check JSON-schema answers in a batch with free answers, while two steps are in flight."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from antiphon.bench.random_models.random_model import SHAPES
from antiphon.engine.request import FinishReason
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.text.grammar_spec import GrammarSpec
from checks.outcome import Outcome, Subject
from support.models.random_files import write_random_model

NAME = "JSON schemas beside free answers"
COUNT = 8
MAX_TOKENS = 400
#: Default model, whose tokens are bytes and numbers.
SMALL = SHAPES["qwen3-0.6b"] | {
    "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512, "vocab_size": 2000, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 32,
}  # fmt: skip


def schema(number: int) -> dict[str, Any]:
    """Return a schema bounded in every part, so that the answer of any model ends."""
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 8 + number},
            "age": {"type": "integer", "minimum": 0, "maximum": 99 + number},
            "kind": {"enum": ["cat", "dog", f"number {number}"]},
            "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
        },
        "required": ["name", "age", "kind", "tags"],
        "additionalProperties": False,
    }


def is_valid(value: Any, against: dict[str, Any]) -> bool:
    """Return whether a value matches a schema; supports only the keywords of `schema`."""
    if "enum" in against:
        return value in against["enum"]
    match against["type"]:
        case "object":
            parts = against["properties"]
            return isinstance(value, dict) and set(value) == set(parts) and all(
                is_valid(value[name], part) for name, part in parts.items()
            )  # fmt: skip
        case "array":
            sizes = range(against["minItems"], against["maxItems"] + 1)
            return isinstance(value, list) and len(value) in sizes and all(is_valid(v, against["items"]) for v in value)
        case "string":
            return isinstance(value, str) and len(value) <= against["maxLength"]
        case "integer":
            return type(value) is int and against["minimum"] <= value <= against["maximum"]
        case "boolean":
            return isinstance(value, bool)
    raise ValueError(f"schemas of type {against['type']!r} are not checked")


def is_answer(text: str, against: dict[str, Any]) -> bool:
    try:
        return is_valid(json.loads(text), against)
    except json.JSONDecodeError:
        return False


def check(subject: Subject) -> Iterator[Outcome]:
    if find_spec("llguidance") is None:
        yield Outcome(NAME, None, "the package llguidance is not installed")
        return
    with ExitStack() as stack:
        model = subject.model
        if model is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            model = str(write_random_model(Path(folder) / "small", SMALL))
        config = EngineConfig(device=subject.device.name, max_running=2 * COUNT)
        engine = stack.enter_context(Engine(model, config=config))
        yield _check(engine)


def _check(engine: Engine) -> Outcome:
    streams = []
    for number in range(COUNT):
        drawn = SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, seed=number)
        grammar = GrammarSpec(json_schema=schema(number))
        streams.append(engine.stream(f"An animal as JSON, number {number}:", drawn, grammar=grammar))
        streams.append(engine.stream(f"Animal {number} is", SamplingParams(max_tokens=96, ignore_eos=True)))
    answers = [stream.wait() for stream in streams]
    constrained, free = answers[::2], answers[1::2]
    valid = sum(
        answer.finish_reason is FinishReason.STOP and is_answer(answer.text, schema(number))
        for number, answer in enumerate(constrained)
    )
    whole = sum(len(answer.token_ids) == 96 for answer in free)
    together = max((step.decode_tokens for step in engine.step_records()), default=0)
    figures = f"{valid} of {COUNT} valid, {whole} of {COUNT} free answers whole, up to {together} in one step"
    return Outcome(NAME, valid == whole == COUNT and together == 2 * COUNT, figures)
