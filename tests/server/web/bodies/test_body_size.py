"""Bodies that would take long to parse or to validate are rejected first; those that would not are not."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.request_schemas import CompletionBody
from antiphon.server.web.bodies import body_size
from antiphon.server.web.bodies.body_size import MAX_CONTAINERS, MAX_DEPTH, MAX_VALUES, BodyBudget, check_structure
from antiphon.server.web.bodies.stepped_validation import STEP, Model, validated
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError


async def validate(model: type[Model], parsed: Any) -> Model:
    return await validated(model, parsed, RequestContext("id", is_strict=True))


JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='a,:[]{}"\\\u00e9', max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\:,{', max_size=4), inner, max_size=4),
    max_leaves=20,
)


def counts(value: object) -> tuple[int, int, int]:
    """Containers, commas and depth, by walking through the parsed value."""
    if not isinstance(value, dict | list):
        return 0, 0, 0
    inner = [counts(item) for item in (value.values() if isinstance(value, dict) else value)]
    commas = max(0, len(value) - 1) + sum(item[1] for item in inner)
    return 1 + sum(item[0] for item in inner), commas, 1 + max((item[2] for item in inner), default=0)


@given(value=JSON)
@settings(max_examples=200, deadline=None)
def test_what_is_in_strings_does_not_count(value: object) -> None:
    containers, commas, depth = counts(value)
    data = orjson.dumps(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_size, "MAX_CONTAINERS", containers)
        patch.setattr(body_size, "MAX_VALUES", commas + containers)
        patch.setattr(body_size, "MAX_DEPTH", depth)
        check_structure(data)
        if containers:
            patch.setattr(body_size, "MAX_DEPTH", depth - 1)
            with pytest.raises(ApiError, match=f"nested {depth} levels"):
                check_structure(data)
            patch.setattr(body_size, "MAX_CONTAINERS", containers - 1)
            with pytest.raises(ApiError, match=f"has {containers} objects and lists"):
                check_structure(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" + b",".join([b"1"] * (MAX_VALUES + 1)) + b"]", "values"),
        (b"[" + b",".join([b"{}"] * MAX_CONTAINERS) + b"]", "objects and lists"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "levels deep"),
        (b"{" + b",".join([b'"a":1'] * 70_000) + b"}", "fields"),
    ],
    ids=["values", "containers", "depth", "fields"],
)
def test_large_bodies_are_rejected_with_their_numbers(data: bytes, message: str) -> None:
    with pytest.raises(ApiError, match=message) as raised:
        check_structure(data)
    assert raised.value.status == 400


def test_long_lists_are_validated_in_steps_with_the_right_places() -> None:
    messages = [{"role": "user", "content": str(number)} for number in range(3 * STEP + 7)]
    body = asyncio.run(validate(ChatBody, {"model": "m", "messages": messages}))
    assert [message.content for message in body.messages] == [message["content"] for message in messages]
    messages[2 * STEP + 3] = {"role": "user", "content": 5}  # type: ignore[dict-item]
    with pytest.raises(ApiError, match=rf"messages\[{2 * STEP + 3}\]\.content"):
        asyncio.run(validate(ChatBody, {"model": "m", "messages": messages}))


@pytest.mark.parametrize("wrong", [[1.5] * 100_000, [[1.5]] * 30_000, ["a", 5.5] * 50_000, [{}] * 30_000])
def test_a_list_of_wrong_values_has_one_error(wrong: list[object]) -> None:
    with pytest.raises(ApiError, match="prompt"):
        asyncio.run(validate(CompletionBody, {"model": "m", "prompt": wrong}))


def test_the_forms_of_prompts() -> None:
    for prompt in ("a", ["a", "b"], [1, 2], [[1], [2, 3]], ["a", 5], [["a", 5], "b"], [[1], "b"]):
        assert CompletionBody.model_validate({"model": "m", "prompt": prompt}).prompt == prompt


def test_objects_of_many_fields_are_rejected() -> None:
    for body in ({f"f{n}": 1 for n in range(5000)}, {"logit_bias": {str(n): "x" for n in range(5000)}}):
        with pytest.raises(ApiError, match=r"has 5,\d\d\d fields; at most 4,096"):
            asyncio.run(validate(CompletionBody, {"model": "m", "prompt": "a", **body}))
    wide = [{f"f{n}": 1 for n in range(100)}] * 1000
    with pytest.raises(ApiError, match="an object in messages has 100 fields"):
        asyncio.run(validate(ChatBody, {"model": "m", "messages": wide}))


def test_the_budget_of_all_bodies() -> None:
    budget = BodyBudget(100)
    budget.reserve(60)
    with pytest.raises(ApiError, match="60 of 100 bytes") as raised:
        budget.reserve(41)
    assert raised.value.status == 503 and raised.value.headers["retry-after"]
    budget.release(60)
    budget.reserve(100)
