"""Tools beside a response format: a call in any form that the parser knows is a call, an answer has the format.

The models are scripted: under a grammar that did not admit a form, they would write something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from antiphon.errors import InvalidRequestError
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.tools.tool_use import ToolUse, tool_use
from antiphon.server.serving.setup.config import Limits, ModelSpec, ServerConfig
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_worker import CONTROL_TOKENS
from antiphon.text.tokenization.bytes_vocab import BytesTokenizer
from antiphon.text.tool_calls.forms import HERMES, LLAMA
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, OutputParser
from antiphon.text.tool_calls.written_calls import ARGUMENTS_KEYS, NAME_KEYS
from support.architectures import registered
from support.engine.scripted_folder import Script, ScriptedClient, write_scripted
from support.server.http_server import TOOL_TEMPLATE, RunningServer, running_server

LLAMA_SOURCE = (Path(__file__).parents[3] / "text" / "templates" / "llama3.jinja").read_text(encoding="utf-8")
#: A template that knows no tools.
PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
TEMPLATES = {"hermes": TOOL_TEMPLATE, "llama": LLAMA_SOURCE, "plain": PLAIN}
TOKENIZER = BytesTokenizer((LLAMA.tag,))
COMPILER = GrammarCompiler(TOKENIZER, TOKENIZER.eos_ids, TOKENIZER.vocab_size)

PARAMETERS = {
    "type": "object",
    "properties": {"person": {"type": "string"}},
    "required": ["person"],
    "additionalProperties": False,
}
AGE_OF = {"name": "age_of", "description": "The age of a person.", "parameters": PARAMETERS}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": AGE_OF},
    {"type": "function", "function": {"name": "clock"}},
    {"type": "custom", "custom": {"name": "run"}},
]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
ANSWER = '{"name": "age_of", "age": 30}'
ANN = '{"person": "Ann"}'


def call(name: str = "name", arguments: str = "arguments", value: str = ANN) -> str:
    return f'{{"{name}": "age_of", "{arguments}": {value}}}'


#: One call as JSON, in every shape in which the parser finds it.
SHAPES = [
    *(call(name, arguments) for name in NAME_KEYS for arguments in ARGUMENTS_KEYS),
    call().replace(" ", ""),
    call(value=json.dumps(ANN)),
    call(value=json.dumps('{"person":"A \\"B\\" \\n"}')),
    f'{{"arguments": {ANN}, "name": "age_of"}}',
    f'{{"type": "function", "name": "age_of", "parameters": {ANN}}}',
    f'{{"type": "function", "function": {call()}}}',
    f'{{"id": "call_1", "type": "function", "function": {call()}}}',
    f"[{call()}]",
    f'[{{"type": "function", "function": {call()}}}]',
    *(f'{{"{wrapper}": {call()}}}' for wrapper in ("tool_call", "function_call", "calls")),
    f'{{"tool_calls": [{call()}]}}',
]  # fmt: skip
FENCED = [f"```{info}\n{call()}\n```" for info in ("json", "tool_call", "")]
FORMS = {
    "plain": [*SHAPES, *FENCED],
    "hermes": [
        *SHAPES,
        *FENCED,
        *(f"<tool_call>\n{shape}\n</tool_call>" for shape in [*SHAPES, FENCED[0]]),
        f"<tool_call>{call()}</tool_call>",
    ],
    "llama": [
        *SHAPES,
        *FENCED,
        *(f"{LLAMA.tag}{shape}" for shape in SHAPES),
        f'{LLAMA.tag}age_of.call(person="Ann")',
        f"{LLAMA.tag}age_of.call(person='Ann')",
    ],
}
TWO = [f"{call()}\n{call()}", f"{call()}; {call()}", f"[{call()}, {call()}]", f'{{"tool_calls": [{call()}, {call()}]}}']
NOT_ADMITTED = [
    '{"name": "age_of", "arguments": {}}',
    '{"name": "other", "arguments": {}}',
    '{"name": "age_of"}',
    '{"x": 1}',
    "hello",
    f"{call()} hello",
    f"{call()}{ANSWER}",
]


def used(form: str, **fields: Any) -> ToolUse:
    text = SimpleNamespace(chat_template=ChatTemplate(TEMPLATES[form]), tokenizer=TOKENIZER)
    model: Any = SimpleNamespace(name="m", text=text)
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": TOOLS, "response_format": FORMAT}
    return tool_use(ChatBody.model_validate(body | fields), model, Limits())


def admits(use: ToolUse, text: str) -> bool:
    assert use.grammar is not None
    constraint = COMPILER.build(use.grammar)
    begin, tag, rest = text.rpartition(use.form.tag) if use.form is LLAMA else ("", "", text)
    ids = [*begin.encode(), *([TOKENIZER.id_of(tag)] if tag else []), *rest.encode()]
    try:
        for token in [*ids, next(iter(TOKENIZER.eos_ids))]:
            constraint.advance(token)  # type: ignore[arg-type]
    except InvalidRequestError:
        return False
    return True


def parsed(use: ToolUse, text: str) -> tuple[list[str], str, str]:
    """Names and arguments of the calls, and what is content."""
    parser = OutputParser(use.names, form=use.form, is_single=use.is_single, custom=use.custom)
    pieces = [piece for character in text for piece in parser.feed(character)] + parser.finish()
    names = [piece.name for piece in pieces if isinstance(piece, CallStart)]
    arguments = "".join(piece.text for piece in pieces if isinstance(piece, CallArguments))
    return names, arguments, "".join(piece.text for piece in pieces if isinstance(piece, Content))


@pytest.mark.parametrize("form", TEMPLATES)
def test_every_form_that_the_parser_knows_is_admitted(form: str) -> None:
    use = used(form)
    for text in FORMS[form]:
        names, arguments, content = parsed(use, text)
        assert (names, content) == (["age_of"], ""), text
        assert json.loads(arguments).keys() == {"person"}, text
    assert [text for text in FORMS[form] if not admits(use, text)] == []
    assert admits(use, ANSWER) and parsed(use, ANSWER) == ([], "", ANSWER)
    assert [text for text in NOT_ADMITTED if admits(use, text)] == []


def test_arguments_may_be_missing_where_none_are_required() -> None:
    for text in ('{"name": "clock", "arguments": null}', '{"name": "clock", "arguments": {}}'):
        assert admits(used("hermes"), text) and parsed(used("hermes"), text)[0] == ["clock"]
    tagged = '<tool_call>\n{"name": "clock"}\n</tool_call>'
    assert admits(used("hermes"), tagged) and parsed(used("hermes"), tagged) == (["clock"], "{}", "")


def test_custom_tools() -> None:
    for text in ('{"name": "run", "arguments": {"input": "a = 1"}}', '{"name": "run", "arguments": "a = 1"}'):
        assert admits(used("hermes"), text) and parsed(used("hermes"), text) == (["run"], "a = 1", "")


def test_several_calls_only_where_they_are_allowed() -> None:
    for text in TWO:
        use, one = used("hermes"), used("hermes", parallel_tool_calls=False)
        assert admits(use, text) and not admits(one, text) and admits(one, call())
        assert parsed(use, text)[0] == ["age_of", "age_of"], text


def test_the_choice_of_a_tool_holds() -> None:
    required = used("hermes", tool_choice="required")
    assert not admits(required, ANSWER) and admits(required, f"<tool_call>\n{call()}\n</tool_call>")
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "clock"}}]}
    only = used("hermes", tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert not admits(only, call()) and admits(only, ANSWER) and admits(only, '{"name": "clock", "arguments": {}}')
    assert not admits(used("hermes", tool_choice="none"), call())


def test_arguments_of_strict_tools_match_their_schema_in_every_form() -> None:
    strict = [{"type": "function", "function": AGE_OF | {"strict": True}}]
    use = used("hermes", tools=strict)
    assert admits(use, call()) and not admits(use, call(value=json.dumps(ANN)))


def test_other_formats() -> None:
    for fields in (
        {"response_format": {"type": "json_object"}},
        {"response_format": None, "guided_choice": ["yes", "no"]},
        {"response_format": None, "guided_regex": "[0-9]{2}"},
        {"response_format": None, "guided_json": PERSON, "guided_whitespace_pattern": "[ ]?"},
        {"response_format": None, "structured_outputs": {"json": PERSON, "disable_any_whitespace": True}},
    ):
        use = used("hermes", **fields)
        assert admits(use, call().replace(" ", "")) and admits(use, f"<tool_call>{call().replace(' ', '')}</tool_call>")


def test_as_many_tools_as_a_request_may_have() -> None:
    many = [
        {"type": "function", "function": {"name": f"a_tool_of_some_name_{number}", "parameters": PARAMETERS}}
        for number in range(Limits().tools)
    ]
    for form in TEMPLATES:
        assert admits(used(form, tools=many), call().replace("age_of", "a_tool_of_some_name_7"))


def test_the_tag_is_a_control_token_where_the_vocabulary_has_it() -> None:
    assert {HERMES.tag, LLAMA.tag} == set(CONTROL_TOKENS)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Script]:
    folder = tmp_path_factory.mktemp("scripted")
    control = {"llama": (LLAMA.tag,)}
    return {name: write_scripted(folder / name, source, control.get(name, ())) for name, source in TEMPLATES.items()}


@pytest.fixture(scope="module")
def server(scripts: dict[str, Script]) -> Iterator[RunningServer]:
    specs = tuple(ModelSpec.of(str(script.folder)) for script in scripts.values())
    with registered():
        config = ServerConfig(models=specs, offline=True)
        with running_server(config, {"kv_bytes": 16 << 20}, ScriptedClient) as running:
            yield running


def answered(server: RunningServer, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(server.url + path, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def by_chat(server: RunningServer, model: str, is_second: bool) -> tuple[str | None, str]:
    """The call's name, and the text of the answer."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How old is Ann?"}]
    if is_second:
        made = {"id": "c1", "type": "function", "function": {"name": "age_of", "arguments": ANN}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": "c1", "content": "30"})
    body = {"model": model, "messages": messages, "tools": TOOLS, "response_format": FORMAT, "max_tokens": 300}
    message = answered(server, "/v1/chat/completions", body)["choices"][0]["message"]
    calls = message.get("tool_calls") or []
    return (calls[0]["function"]["name"] if calls else None), message["content"] or ""


def by_responses(server: RunningServer, model: str, is_second: bool) -> tuple[str | None, str]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "How old is Ann?"}]
    if is_second:
        items.append({"type": "function_call", "call_id": "c1", "name": "age_of", "arguments": ANN})
        items.append({"type": "function_call_output", "call_id": "c1", "output": "30"})
    form = {"type": "json_schema", "name": "person", "schema": PERSON}
    body = {"model": model, "input": items, "tools": [{"type": "function", **AGE_OF}], "text": {"format": form}}
    output = answered(server, "/v1/responses", body | {"max_output_tokens": 300})["output"]
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    return next((item["name"] for item in output if item["type"] == "function_call"), None), "".join(texts)


def by_messages(server: RunningServer, model: str, is_second: bool) -> tuple[str | None, str]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How old is Ann?"}]
    if is_second:
        used_tool = {"type": "tool_use", "id": "c1", "name": "age_of", "input": json.loads(ANN)}
        messages.append({"role": "assistant", "content": [used_tool]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "30"}]})
    tool = {"name": "age_of", "description": "The age of a person.", "input_schema": PARAMETERS}
    form = {"output_config": {"format": {"type": "json_schema", "schema": PERSON}}}
    body = {"model": model, "messages": messages, "tools": [tool], "max_tokens": 300, **form}
    content = answered(server, "/v1/messages", body)["content"]
    texts = [block["text"] for block in content if block["type"] == "text"]
    return next((block["name"] for block in content if block["type"] == "tool_use"), None), "".join(texts)


def by_ollama(server: RunningServer, model: str, is_second: bool) -> tuple[str | None, str]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How old is Ann?"}]
    if is_second:
        made = {"function": {"name": "age_of", "arguments": json.loads(ANN)}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [made]})
        messages.append({"role": "tool", "tool_name": "age_of", "content": "30"})
    body = {"model": model, "messages": messages, "tools": TOOLS[:2], "format": PERSON, "stream": False}
    message = answered(server, "/api/chat", body)["message"]
    calls = message.get("tool_calls") or []
    return (calls[0]["function"]["name"] if calls else None), message["content"]


@pytest.mark.parametrize("ask", [by_chat, by_responses, by_messages, by_ollama])
def test_a_call_and_then_an_answer_in_every_api(ask: Any, server: RunningServer, scripts: dict[str, Script]) -> None:
    for model, script in scripts.items():
        for text in (FORMS[model][0], FORMS[model][-1]):
            script.write(text)
            assert ask(server, model, False) == ("age_of", ""), text
        script.write(ANSWER)
        assert ask(server, model, True) == (None, ANSWER)


def test_a_schema_that_looks_like_wrapped_text(server: RunningServer, scripts: dict[str, Script]) -> None:
    """A model without a template for tools writes text as `{"response": ...}`; an answer of a format is not text."""
    schema = {"type": "object", "properties": {"response": {"type": "string"}}, "required": ["response"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    scripts["plain"].write('{"response": "yes"}')
    messages = [{"role": "user", "content": "Is it?"}]
    body = {"model": "plain", "messages": messages, "tools": TOOLS, "response_format": form, "max_tokens": 100}
    message = answered(server, "/v1/chat/completions", body)["choices"][0]["message"]
    assert message["content"] == '{"response": "yes"}'
