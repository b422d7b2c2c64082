"""`Mapping`: requests of openai-python's tests with ids, files and empty values replaced by real ones."""

from __future__ import annotations

import io
import json
import re
import wave
from collections.abc import Callable
from typing import Any

import httpx2
from openai import OpenAI

MODEL = "gpt-6-astra"
SLOW_MODEL = "smollm2-135m"
EXAMPLE = b"Example data"
MOCK_BODY = b'{"foo": "bar"}'
#: Where a test asserts the mock's body: the server's answer is checked, and then that body is put in its place.
MOCKED_ROUTES = re.compile(r"/audio/speech$")
AUDIO_ROUTES = re.compile(r"/audio/(transcriptions|translations)$")
#: Numbers of 0, with which a request would ask for nothing.
COUNTS = {"max_tokens": 16, "max_completion_tokens": 16, "best_of": 1}
ADMIN_KEY = "the-admin-key"


def spoken() -> bytes:
    """Half a second of a tone as WAV."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(b"".join((6000 * (n // 40 % 2)).to_bytes(2, "little") for n in range(8000)))
    return content.getvalue()


class Mapping:
    """Each placeholder becomes a new object of its kind, since a test may delete it."""

    def __init__(self, base_url: str) -> None:
        self._server = OpenAI(base_url=base_url, api_key="My API Key", max_retries=0, timeout=60)
        self._made: dict[str, Callable[[], str]] = {
            "completion_id": self._completion,
            "response_id": self._response,
            "resp_677efb5139a88190b512bc3fef8e535d": self._response,
            "previous_response_id": self._response,
            "resp_123": self._response,
            "conv_123": self._conversation,
            "file_id": self._file,
            "input_file_id": self._batch_file,
            "batch_id": self._batch,
            "ft:gpt-4o-mini:acemeco:suffix:abc123": lambda: MODEL,
        }

    # -- new objects ----------------------------------------------------------------------------------------------

    def _completion(self) -> str:
        # The client's type of a stored message has no other role.
        messages: Any = [{"role": "assistant", "content": "hello"}]
        return self._server.chat.completions.create(model=MODEL, messages=messages, store=True, max_tokens=2).id

    def _response(self) -> str:
        return self._server.responses.create(model=MODEL, input="hello", max_output_tokens=16).id

    def _running_response(self) -> str:
        """One that takes minutes."""
        endless: Any = {"ignore_eos": True}
        return self._server.responses.create(model=SLOW_MODEL, input="hello", background=True, extra_body=endless).id

    def _conversation(self) -> str:
        return self._server.conversations.create().id

    def _item(self, conversation: str) -> str:
        item: Any = {"type": "message", "role": "user", "content": "hello"}
        return str(self._server.conversations.items.create(conversation, items=[item]).data[0].id)

    def _file(self) -> str:
        return self._server.files.create(file=("foo.json", MOCK_BODY), purpose="user_data").id

    def _batch_file(self) -> str:
        """Long enough that its batch runs when a test cancels it."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 32}
        call = {"method": "POST", "url": "/v1/chat/completions", "body": body}
        lines = "\n".join(json.dumps({"custom_id": str(number), **call}) for number in range(200))
        return self._server.files.create(file=("batch.jsonl", lines.encode()), purpose="batch").id

    def _batch(self) -> str:
        name: Any = "/v1/chat/completions"
        return self._server.batches.create(completion_window="24h", endpoint=name, input_file_id=self._batch_file()).id

    # -- requests -------------------------------------------------------------------------------------------------

    def request(self, request: httpx2.Request) -> httpx2.Request:
        path = self._path(request.url.path)
        url = request.url.copy_with(path=path)
        after = url.params.get("after")
        if after is not None:
            url = url.copy_remove_param("after")
        content, headers = request.content, dict(request.headers)
        if headers.get("content-type", "").startswith("multipart/"):
            data = spoken() if AUDIO_ROUTES.search(path) else MOCK_BODY
            content = content.replace(EXAMPLE, data).replace(b"\r\nlanguage\r\n", b"\r\nen\r\n")
        elif content:
            content = json.dumps(self._body(path, json.loads(content))).encode()
        elif path.endswith("/responses") and request.method == "POST":
            content = json.dumps(self._body(path, {})).encode()
        if request.method == "DELETE" and "/models/" in path:
            headers["authorization"] = f"Bearer {ADMIN_KEY}"
        headers.pop("content-length", None)
        headers.pop("transfer-encoding", None)
        return httpx2.Request(request.method, url, headers=headers, content=content, extensions=request.extensions)

    def _path(self, path: str) -> str:
        parts = path.split("/")
        if parts[-1] == "cancel" and "responses" in parts:
            parts[-2] = self._running_response()
        for place, part in enumerate(parts):
            if part in self._made:
                parts[place] = self._made[part]()
            elif part == "msg_abc":
                parts[place] = self._item(parts[place - 2])
        return "/".join(parts)

    def _body(self, path: str, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        body = {name: self._value(name, value) for name, value in body.items()}
        if path.endswith("/responses"):
            body.setdefault("model", MODEL)
            body.setdefault("input", "string")
            body.setdefault("max_output_tokens", 16)
        for name, count in COUNTS.items():
            if body.get(name) == 0:
                body[name] = count
        if path.endswith("/chat/completions"):
            body.setdefault("max_completion_tokens", 16)
        if path.endswith("/embeddings"):
            body["encoding_format"] = "float"  # the client checks the type of an answer before it decodes base64
        if not body.get("stream"):
            body.pop("stream_options", None)
        return body

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value in self._made:
            return self._made[value]()
        if name == "conversation" and value == "string":
            return self._conversation()
        if name == "logit_bias":
            return {"5": 0}
        return value

    # -- answers --------------------------------------------------------------------------------------------------

    def is_mocked(self, request: httpx2.Request) -> bool:
        return MOCKED_ROUTES.search(request.url.path) is not None

    def mocked(self, response: httpx2.Response, content: bytes) -> httpx2.Response:
        """The mock's answer, once the server's own is a sound."""
        if response.status_code != 200:
            return httpx2.Response(response.status_code, headers=response.headers, content=content)
        assert len(content) > 100, "the speech is empty"
        return httpx2.Response(200, stream=httpx2.ByteStream(MOCK_BODY), headers={"content-type": "application/json"})
