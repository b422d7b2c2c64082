"""Images and files get the same sentence in every API; what a strict server rejects where OpenAI does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}}
INPUT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
INPUT_FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "AAAA"}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": [user(TEXT, IMAGE)]}, "messages[0].content[1]"),
        ("/v1/chat/completions", {"messages": [user(FILE)]}, "messages[0].content[0]"),
        (
            "/v1/chat/completions",
            {"messages": [user(TEXT), {"role": "tool", "tool_call_id": "c", "content": [IMAGE]}]},
            "messages[1].content[0]",
        ),
        ("/v1/responses", {"input": [user(INPUT_IMAGE)]}, "input[0].content[0]"),
        ("/v1/responses", {"input": [user({"type": "input_text", "text": "a"}, INPUT_FILE)]}, "input[0].content[1]"),
        (
            "/v1/responses",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [INPUT_IMAGE]}]},
            "input[0].output[0]",
        ),
        ("/v1/messages", {"max_tokens": 1, "messages": [user({"type": "image"})]}, "messages[0].content[0]"),
        ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]}, "messages[0].images"),
        ("/api/generate", {"prompt": "a", "images": ["AAAA"]}, "images"),
    ],
)  # fmt: skip
def test_images_and_files_get_one_sentence(server: RunningServer, path: str, body: dict[str, Any], param: str) -> None:
    answer = httpx.post(server.url + path, json={"model": "tiny-chat", **body}, timeout=60)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    message = error["message"] if isinstance(error, dict) else error
    assert message == f"{param}: this model reads text only"
    if isinstance(error, dict) and "code" in error:
        assert (error["code"], error["param"]) == ("unsupported_value", param)


@pytest.fixture
def strict(servers: ServerPool, chat_folder: Path) -> Iterator[RunningServer]:
    config = ServerConfig(models=(ModelSpec.of(str(chat_folder)),), is_strict=True, offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [user(TEXT)], "max_tokens": 1}),
        ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
        ("/v1/responses", {"input": "a", "max_output_tokens": 1}),
    ],
)
def test_a_temperature_above_two(strict: RunningServer, server: RunningServer, path: str, body: dict[str, Any]) -> None:
    def answer(running: RunningServer, temperature: float) -> httpx.Response:
        given = {"model": "tiny-chat", **body, "temperature": temperature}
        return httpx.post(running.url + path, json=given, timeout=60)

    assert answer(strict, 2).status_code == 200 and answer(server, 2.5).status_code == 200
    rejected = answer(strict, 2.5)
    error = rejected.json()["error"]
    assert (rejected.status_code, error["param"]) == (400, "temperature")
    assert error["message"] == "temperature is 2.5; a strict server accepts at most 2"
