"""What Anthropic's clients put into a message: documents, typed tools, results of tools; and what is rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from antiphon.server.apis.anthropic.chat_body import chat_body
from antiphon.server.apis.anthropic.request_schemas import MessagesBody
from support.server.http_server import RunningServer

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
TEXT_ONLY = "this model reads text only"
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
PLAIN = {"type": "text", "media_type": "text/plain", "data": "The moon is far."}


@pytest.fixture
def claude(server: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as made:
        yield made


def user(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": list(blocks)}]


def asked(server: RunningServer, **fields: Any) -> Any:
    """The request as a chat."""
    body = MessagesBody.model_validate({"model": "tiny-chat", "max_tokens": 2, "messages": HELLO, **fields})

    async def made() -> Any:
        return chat_body(body, await server.serving.models.ready("tiny-chat", "generate"))

    return asyncio.run_coroutine_threadsafe(made(), server.loop).result(60)


def test_documents_of_text_are_read(server: RunningServer, claude: anthropic.Anthropic) -> None:
    question = {"type": "text", "text": "How far?"}
    forms = (
        ({"source": PLAIN}, "The moon is far.\n\nHow far?"),
        ({"source": PLAIN, "title": "M", "context": "A book."}, "M\n\nA book.\n\nThe moon is far.\n\nHow far?"),
        ({"source": {"type": "content", "content": "Parts."}, "citations": {"enabled": True}}, "Parts.\n\nHow far?"),
        ({"source": {"type": "content", "content": [{"type": "text", "text": "A part."}]}}, "A part.\n\nHow far?"),
    )  # fmt: skip
    for fields, text in forms:
        messages = user({"type": "document", **fields}, question)
        assert asked(server, messages=messages).messages[0].content == text
        claude.messages.create(model="tiny-chat", max_tokens=1, messages=messages)
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document", "source": PLAIN}]}
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    messages = [*HELLO, {"role": "assistant", "content": [call]}, *user(result)]
    assert asked(server, messages=messages).messages[-1].content == "The moon is far.\n\n"


@pytest.mark.parametrize("block", [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    {"type": "document", "source": PDF},
    {"type": "document", "source": {"type": "url", "url": "http://example.org/a.pdf"}},
    {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
])  # fmt: skip
@pytest.mark.parametrize("is_result", [False, True])
def test_images_and_binary_documents_are_rejected_in_one_sentence(
    claude: anthropic.Anthropic, block: dict[str, Any], is_result: bool
) -> None:
    given = {"type": "tool_result", "tool_use_id": "t", "content": [block]} if is_result else block
    with pytest.raises(anthropic.BadRequestError, match=TEXT_ONLY) as caught:
        claude.messages.create(model="tiny-chat", max_tokens=1, messages=user(given))
    body: Any = caught.value.body
    param, _, sentence = body["error"]["message"].partition(": ")
    assert param.startswith("messages[0].content[0]") and sentence == TEXT_ONLY
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    assert body["request_id"] == caught.value.request_id


@pytest.mark.parametrize(
    ("tool", "properties"),
    [
        ({"type": "bash_20250124", "name": "bash"}, {"command", "restart"}),
        ({"type": "bash_20241022", "name": "bash", "cache_control": {"type": "ephemeral"}}, {"command", "restart"}),
        (
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 100},
            {"command", "path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "view_range"},
        ),
        (
            {"type": "text_editor_20250124", "name": "str_replace_editor"},
            {"command", "path", "file_text", "old_str", "new_str", "insert_line", "view_range"},
        ),
        (
            {"type": "memory_20250818", "name": "memory"},
            {"command", "path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "view_range"}
            | {"old_path", "new_path"},
        ),
    ],
)
def test_typed_tools_of_the_client_have_their_schemas(
    server: RunningServer, claude: anthropic.Anthropic, tool: dict[str, Any], properties: set[str]
) -> None:
    made = asked(server, tools=[tool]).tools[0].function
    assert made.name == tool["name"] and made.description and set(made.parameters["properties"]) == properties
    own = {"name": "own", "input_schema": {"type": "object"}}
    call = claude.beta.messages.create(
        model="tiny-chat",
        max_tokens=300,
        messages=HELLO,
        tools=[tool, own],  # type: ignore[list-item]
        tool_choice={"type": "tool", "name": tool["name"]},
    ).content[-1]
    assert call.type == "tool_use" and call.name == tool["name"]


@pytest.mark.parametrize("kind", [
    "web_search_20250305", "web_search_20260209", "web_fetch_20250910", "code_execution_20250825",
    "tool_search_tool_regex_20251119", "mcp_toolset", "computer_20250124",
])  # fmt: skip
def test_other_tools_of_anthropic_are_rejected_by_name(claude: anthropic.Anthropic, kind: str) -> None:
    name = kind.rpartition("_")[0] if kind[-1].isdigit() else kind
    own = {"name": "own", "input_schema": {"type": "object"}}
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(
            model="tiny-chat",
            max_tokens=1,
            messages=HELLO,
            tools=[own, {"type": kind, "name": name}],  # type: ignore[list-item]
        )
    body: Any = caught.value.body
    message = body["error"]["message"]
    assert message.startswith(f"tools[1]: the tool {name} ") and "validat" not in message
    assert ("Anthropic's service" in message) != (name == "computer")


def test_a_temperature_above_one_is_rejected(claude: anthropic.Anthropic) -> None:
    claude.messages.create(model="tiny-chat", max_tokens=1, messages=HELLO, extra_body={"temperature": 1})
    with pytest.raises(anthropic.BadRequestError, match=r"temperature: .*less than or equal to 1"):
        claude.messages.create(model="tiny-chat", max_tokens=1, messages=HELLO, extra_body={"temperature": 1.01})


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "3"}


def calls(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "add", "input": {}} for i in ids]}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (user(result("toolu_orphan")), "messages[0].content[0]"),
        ([*HELLO, calls("a"), *user(result("a"), result("toolu_orphan"))], "messages[2].content[1]"),
        ([*HELLO, calls("toolu_orphan"), *HELLO, calls("b"), *user(result("toolu_orphan"))], "messages[4].content[0]"),
    ],
)
def test_an_orphan_result_is_rejected_with_its_id(claude: anthropic.Anthropic, messages: list[Any], param: str) -> None:
    for call in (claude.messages.create, claude.messages.count_tokens):
        more: Any = {"max_tokens": 1} if call == claude.messages.create else {}
        with pytest.raises(anthropic.BadRequestError) as caught:
            call(model="tiny-chat", messages=messages, **more)
        assert "'toolu_orphan'" in str(caught.value) and f"{param}.tool_use_id" in str(caught.value)


def test_results_of_calls_are_accepted(server: RunningServer) -> None:
    system = {"role": "system", "content": "Go on."}
    for messages in (
        [*HELLO, calls("a", "b"), *user(result("b"), result("a"))],
        [*HELLO, calls("a", "b"), *user(result("b")), *user(result("a"))],
        [*HELLO, calls("a"), calls("b"), system, *user(result("a"), result("b"))],
    ):
        body = {"model": "tiny-chat", "max_tokens": 1, "messages": messages}
        answer = httpx.post(server.url + "/v1/messages", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
