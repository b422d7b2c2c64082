"""Types of the fields of options, from their annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest
import torch

from antiphon import EngineConfig, HearingOptions, SamplingParams, SpeechOptions, TranscriptionOptions, TurnSettings
from antiphon.argument_types import as_set, as_tuple, check_fields, shown
from antiphon.errors import InvalidRequestError


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    value: int = 0


@dataclass(frozen=True)
class Options:
    number: float = 1.0
    count: int | None = 1
    text: str = ""
    flag: bool = False
    texts: tuple[str, ...] = ()
    names: Sequence[str] = ()
    tokens: frozenset[int] | None = None
    weights: Mapping[str, float] | None = None
    size: Size = Size.SMALL
    colour: Colour = Colour.RED
    inner: Inner = Inner()

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"number": 2}, {"number": np.float32(1)}, {"count": None}, {"count": np.int64(3)}, {"flag": True},
        {"texts": ("a", "b")}, {"names": ("a",)}, {"tokens": frozenset({1})}, {"weights": {"a": 1, "b": 0.5}},
        {"size": 2}, {"size": Size.LARGE}, {"inner": Inner(3)},
    ],
)  # fmt: skip
def test_values_of_the_type_are_taken(options: dict[str, Any]) -> None:
    assert Options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": "1"}, "number is '1' (str); it must be a number"),
        ({"number": True}, "number is True; it must be a number"),
        ({"count": 1.0}, "count is 1.0 (float); it must be an integer or None"),
        ({"text": None}, "text is None; it must be a string"),
        ({"flag": 1}, "flag is 1 (int); it must be True or False"),
        ({"texts": ("a", 1)}, "texts is ('a', 1) (tuple); it must be a tuple of strings"),
        ({"names": "ab"}, "names is 'ab' (str); it must be a tuple of strings"),
        ({"tokens": {1}}, "tokens is {1} (set); it must be a set of integers or None"),
        ({"weights": {"a": "b"}}, "it must be a mapping of strings to numbers or None"),
        ({"weights": {1: 1}}, "it must be a mapping of strings to numbers or None"),
        ({"size": 3}, "size is 3 (int); it must be one of Size.SMALL, Size.LARGE"),
        ({"colour": "red"}, "colour is 'red' (str); it must be one of Colour.RED"),
        ({"inner": {}}, "inner is {} (dict); it must be an Inner"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named_with_what_is_taken(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        Options(**options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"), (int, "the class int"), ("x" * 500, "'" + "x" * 59 + "… (str)"),
        (np.zeros((2, 3)), "a ndarray of float64 with shape [2, 3]"),
        (torch.zeros(4), "a Tensor of torch.float32 with shape [4]"),
    ],
)  # fmt: skip
def test_a_value_is_shown_in_a_line(value: object, text: str) -> None:
    assert shown(value) == text


def test_one_or_several_become_a_tuple_or_a_set() -> None:
    assert (as_tuple("a"), as_tuple(["a", "b"]), as_tuple(("a",)), as_tuple(5)) == (("a",), ("a", "b"), ("a",), 5)
    assert (as_set([1, 2]), as_set({3}), as_set(None), as_set(["a"])) == ({1, 2}, {3}, None, ["a"])
    assert isinstance(as_set([1]), frozenset)


@pytest.mark.parametrize("stop", ["end", ["end"], ("end",)])
def test_stop_is_one_string_or_several(stop: Any) -> None:
    assert SamplingParams(stop=stop, stop_tokens=[4]).stop == ("end",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        (SamplingParams, {"temperature": "hot"}, "temperature"), (SamplingParams, {"stop": 5}, "stop"),
        (SamplingParams, {"stop": ""}, "stop"), (SamplingParams, {"temperature": float("nan")}, "temperature"),
        (SamplingParams, {"logit_bias": [1]}, "logit_bias"), (TranscriptionOptions, {"words": "yes"}, "words"),
        (TranscriptionOptions, {"temperatures": 0.5}, "temperatures"), (SpeechOptions, {"speed": None}, "speed"),
        (EngineConfig, {"kv_bytes": "1 GB"}, "kv_bytes"), (EngineConfig, {"kv_bytes": -1}, "kv_bytes"),
        (EngineConfig, {"max_model_tokens": 0}, "max_model_tokens"), (TurnSettings, {"threshold": "high"}, "threshold"),
        (HearingOptions, {"turns": {}}, "turns"),
    ],
)  # fmt: skip
def test_the_options_of_an_engine_check_their_types(kind: Any, options: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"{name} is .*; it must be "):
        kind(**options)
