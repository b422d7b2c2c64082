"""Tools through openai-python: calls enforced by grammar, streamed, and answered in a second turn."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from antiphon.runtime.calls.events import TextDelta
from antiphon.server.generation.chat.chat_call import ChatCall
from antiphon.text.tool_calls.forms import LLAMA
from support.server.http_server import RunningServer

MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"enum": ["x", "y"]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
TOOLS: list[Any] = [ADD, CLOCK]


NAMED_SUB = {"type": "function", "function": {"name": "sub"}}
ALLOWED_SUB = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED_SUB]}}
RUN: Any = {"type": "custom", "custom": {"name": "run", "description": "Runs code."}}
BAD_REGEX = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "x" * 20_000}}
HUGE = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(5_000)}}
DEEP: dict[str, Any] = {"type": "string"}
for _ in range(60):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


def check(name: str, arguments: str) -> None:
    values = json.loads(arguments)
    if name == "clock":
        assert values == {}
    else:
        assert name == "add" and 0 <= values["a"] <= 9 and values["b"] in ("x", "y") and len(values) == 2


MODELS = ["tiny-chat", "tiny-llama3", "tiny-plain"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_required_calls_are_valid(client: openai.OpenAI, model: str, seed: int) -> None:
    answer = client.chat.completions.create(
        model=model, messages=MESSAGES, tools=TOOLS, tool_choice="required", seed=seed,
        max_tokens=200, parallel_tool_calls=False,
    )  # fmt: skip
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    (call,) = choice.message.tool_calls or []
    check(call.function.name, call.function.arguments)  # type: ignore[union-attr]


@pytest.mark.long("twelve answers of up to 300 tokens are drawn under a grammar")
def test_several_calls_in_one_answer(client: openai.OpenAI) -> None:
    found = 0
    for seed in range(12):
        answer = client.chat.completions.create(
            model="tiny-chat", messages=MESSAGES, tools=TOOLS, tool_choice="required", seed=seed, temperature=1.5,
            max_tokens=300,
        )  # fmt: skip
        calls = answer.choices[0].message.tool_calls or []
        whole = calls if answer.choices[0].finish_reason == "tool_calls" else calls[:-1]
        for call in whole:
            check(call.function.name, call.function.arguments)  # type: ignore[union-attr]
        assert len({call.id for call in calls}) == len(calls) >= 1
        found = max(found, len(whole))
    assert found > 1


@pytest.mark.parametrize("model", MODELS)
def test_a_named_tool_is_called(client: openai.OpenAI, model: str) -> None:
    choice = {"type": "function", "function": {"name": "add"}}
    details: dict[str, Any] = dict(model=model, messages=MESSAGES, tools=TOOLS, tool_choice=choice, seed=5)
    whole = client.chat.completions.create(**details, max_tokens=200).choices[0].message.tool_calls or []
    assert [call.function.name for call in whole] == ["add"]  # type: ignore[union-attr]
    name, arguments, pieces, reason = "", "", 0, None
    for chunk in client.chat.completions.create(**details, max_tokens=200, stream=True):
        reason = chunk.choices[0].finish_reason or reason
        for call in chunk.choices[0].delta.tool_calls or []:
            assert call.index == 0 and call.function is not None
            name += call.function.name or ""
            arguments += call.function.arguments or ""
            pieces += 1
    assert (name, arguments, reason) == ("add", whole[0].function.arguments, "tool_calls")  # type: ignore[union-attr]
    assert pieces >= 2  # the name, then arguments; a slow reader gets several tokens in one piece


def test_a_conversation_of_two_turns(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, tools=TOOLS, tool_choice="required", seed=0, max_tokens=200,
        parallel_tool_calls=False,
    ).choices[0].message  # fmt: skip
    (call,) = first.tool_calls or []
    messages = [*MESSAGES, first.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "3"}]
    second = client.chat.completions.create(
        model="tiny-chat", messages=messages, tools=TOOLS, max_tokens=5, temperature=0
    )
    assert second.choices[0].message.content
    history = client.post("/../apply-template", body={"model": "tiny-chat", "messages": messages}, cast_to=object)
    arguments = json.loads(call.function.arguments)  # type: ignore[union-attr]
    written = json.dumps({"arguments": arguments, "name": call.function.name})  # type: ignore[union-attr]
    prompt = history["prompt"]  # type: ignore[index]
    found = prompt.partition("<tool_call>\n")[2].partition("\n</tool_call>")[0]
    assert json.loads(found) == json.loads(written)


def test_llama_takes_several_calls_one_by_one(client: openai.OpenAI) -> None:
    """Its template refuses two calls in one message, so required calls are single, and histories are taken apart."""
    for seed in range(6):
        answer = client.chat.completions.create(
            model="tiny-llama3", messages=MESSAGES, tools=TOOLS, tool_choice="required", seed=seed, temperature=1.5,
            max_tokens=300,
        )  # fmt: skip
        assert len(answer.choices[0].message.tool_calls or []) == 1
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "add", "arguments": f'{{"a": {number}}}'}}
        for number in (1, 2)
    ]
    results = [{"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number}"} for number in (2, 1)]
    messages = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    body = {"model": "tiny-llama3", "messages": messages, "tools": TOOLS}
    prompt = client.post("/../apply-template", body=body, cast_to=object)["prompt"]  # type: ignore[index]
    positions = [prompt.index(text) for text in ('{"a": 1}', "result 1", '{"a": 2}', "result 2")]
    assert positions == sorted(positions)


def test_llamas_control_token_is_seen(client: openai.OpenAI, server: RunningServer) -> None:
    """It is no text, so nothing but its id tells that it was written."""
    tokenizer = server.serving.models.find("tiny-llama3").text.tokenizer  # type: ignore[union-attr]
    tag = tokenizer.id_of("<|python_tag|>")
    details: dict[str, Any] = dict(model="tiny-llama3", messages=MESSAGES, max_tokens=3, logit_bias={str(tag): 100})
    assert client.chat.completions.create(**details).choices[0].message.content == ""
    assert client.chat.completions.create(**details, tools=TOOLS).choices[0].message.content == "<|python_tag|>" * 3


def test_control_tokens_keep_their_places(server: RunningServer) -> None:
    """However many tokens one delta brings."""
    model = server.serving.models.find("tiny-llama3")
    tokenizer = model.text.tokenizer  # type: ignore[union-attr]
    tag = tokenizer.id_of("<|python_tag|>")
    first, second = tokenizer.encode("add"), tokenizer.encode("[1]")
    use = SimpleNamespace(form=LLAMA, tools=TOOLS)
    chat = ChatCall(model=model, body=None, call=None, use=use, looks_for_reasoning=False, is_in_reasoning=False)  # type: ignore[arg-type]
    for ids, text, expected in (
        ([tag, tag, tag], "", "TTT"),
        ([tag, *first, tag, *second], "add[1]", "TaddT[1]"),
        ([*first, tag, tag, *second], "add[1]", "addTT[1]"),
        ([*first, *second], "add[1]", "add[1]"),
    ):
        assert chat.text(TextDelta("a/0", text, ids)) == expected.replace("T", "<|python_tag|>")


def test_auto_and_none(client: openai.OpenAI) -> None:
    auto = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, tools=TOOLS, max_tokens=6, temperature=0
    )
    assert auto.choices[0].finish_reason == "length"
    strict = {"type": "function", "function": {**ADD["function"], "strict": True}}  # type: ignore[dict-item]
    for model in MODELS:
        enforced = client.chat.completions.create(
            model=model, messages=MESSAGES, tools=[strict], max_tokens=6, temperature=0
        )
        assert enforced.choices[0].message.content is not None
    none = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, tools=TOOLS, tool_choice="none", max_tokens=6
    )
    plain = client.chat.completions.create(model="tiny-chat", messages=MESSAGES, max_tokens=6)
    assert none.usage is not None and plain.usage is not None
    assert none.usage.prompt_tokens == plain.usage.prompt_tokens < auto.usage.prompt_tokens  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tools": [ADD, ADD]}, "two tools are called 'add'"),
        ({"tool_choice": {"type": "function", "function": {"name": "sub"}}}, "no function tool here"),
        ({"tool_choice": ALLOWED_SUB}, "no function"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "add"}}}, "no custom tool here"),
        ({"tools": [{"type": "custom", "custom": {"name": "run", "format": BAD_REGEX}}]}, "regex has 20,000 bytes"),
        ({"tools": [{"type": "function", "function": {"name": "deep", "parameters": DEEP}}]}, "nested"),
        ({"tools": [{"type": "function", "function": {"name": "huge", "parameters": HUGE}}]}, "at most"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "pattern"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
    ],
    ids=["twice", "unknown", "allowed", "custom", "regex", "deep", "huge", "name", "kind"],
)
def test_refusals(client: openai.OpenAI, change: dict[str, Any], message: str) -> None:
    details: dict[str, Any] = {"model": "tiny-chat", "messages": MESSAGES, "tools": TOOLS, **change}
    with pytest.raises(openai.BadRequestError, match=message):
        client.chat.completions.create(**details)


def test_a_call_or_a_response_of_the_schema(client: openai.OpenAI) -> None:
    """Either of them, in every model: calls have valid arguments, and the content is a document of the schema."""
    schema = {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"], "additionalProperties": False}
    form: Any = {"type": "json_schema", "json_schema": {"name": "point", "schema": schema, "strict": True}}
    for model in MODELS:
        for seed in range(3):
            choice = client.chat.completions.create(
                model=model, messages=MESSAGES, tools=TOOLS, response_format=form, seed=seed, max_tokens=200,
                parallel_tool_calls=False,
            ).choices[0]  # fmt: skip
            assert choice.finish_reason in ("stop", "tool_calls")
            for call in choice.message.tool_calls or []:
                check(call.function.name, call.function.arguments)  # type: ignore[union-attr]
            if not choice.message.tool_calls:
                assert json.loads(choice.message.content or "")["x"] in (1, 2)


def test_a_model_without_tools_is_told_of_them(client: openai.OpenAI) -> None:
    """The system message has the tools; calls and results are messages that the template knows."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": "x"}'}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    messages = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    body = {"model": "tiny-plain", "messages": messages, "tools": TOOLS}
    prompt = client.post("/../apply-template", body=body, cast_to=object)["prompt"]  # type: ignore[index]
    expected = ["<|system|>", '"name": "add"', "<|user|>hello", '<|assistant|>{"name": "add", "arguments": {"a": 1',
                "<|user|>Result of add: 3"]  # fmt: skip
    positions = [prompt.index(text) for text in expected]
    assert positions == sorted(positions) and "tool|>" not in prompt


@pytest.mark.parametrize("model", MODELS)
def test_a_custom_tool(client: openai.OpenAI, model: str) -> None:
    pattern = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-c]{3}"}}
    tool: Any = {"type": "custom", "custom": {"name": "run", "format": pattern}}
    choice: Any = {"type": "custom", "custom": {"name": "run"}}
    details: dict[str, Any] = dict(model=model, messages=MESSAGES, tools=[tool], tool_choice=choice, max_tokens=100)
    whole = client.chat.completions.create(**details, seed=1).choices[0]
    assert whole.finish_reason == "tool_calls"
    (call,) = whole.message.tool_calls or []
    assert call.type == "custom" and call.custom.name == "run" and set(call.custom.input) <= set("abc")
    assert len(call.custom.input) == 3
    name, text = "", ""
    for chunk in client.chat.completions.create(**details, seed=1, stream=True):
        for part in chunk.choices[0].delta.tool_calls or []:
            given = part.model_dump()["custom"]
            name, text = name + (given.get("name") or ""), text + given["input"]
    assert (name, text) == ("run", call.custom.input)
    messages = [*MESSAGES, whole.message.model_dump(exclude_none=True)]
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "done"})
    again = client.chat.completions.create(**{**details, "messages": messages, "tool_choice": "none"}, seed=1)
    assert again.usage is not None


def test_a_cut_call_is_never_content(client: openai.OpenAI) -> None:
    """Whole or streamed, at every limit: no content, and the arguments so far once the tool is known."""
    choice: Any = {"type": "function", "function": {"name": "add"}}
    for model in MODELS:
        for limit in (1, 3, 8, 14):
            details: dict[str, Any] = dict(
                model=model, messages=MESSAGES, tools=TOOLS, tool_choice=choice, max_tokens=limit, seed=3
            )
            whole = client.chat.completions.create(**details).choices[0]
            assert whole.finish_reason == "length" and not whole.message.content
            chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**details, stream=True)]
            assert not "".join(chunk.delta.content or "" for chunk in chunks)
            calls = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
            arguments = "".join(call.function.arguments or "" for call in calls if call.function is not None)
            made = whole.message.tool_calls or []
            assert arguments == "".join(call.function.arguments for call in made)  # type: ignore[union-attr]


def test_only_allowed_tools_are_called(client: openai.OpenAI) -> None:
    clock = {"type": "function", "function": {"name": "clock"}}
    choice: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [clock]}}
    for model in MODELS:
        answer = client.chat.completions.create(
            model=model, messages=MESSAGES, tools=TOOLS, tool_choice=choice, max_tokens=60, parallel_tool_calls=False
        )
        assert [call.function.name for call in answer.choices[0].message.tool_calls or []] == ["clock"]  # type: ignore[union-attr]
