"""The OpenAPI document and the server agree, on requests that nobody would think of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.routing import Route

from antiphon.runtime.speech import pronunciation
from antiphon.server.app import ROUTERS
from antiphon.server.serving.setup.config import DEFAULT_SOUND_MODELS, ModelSpec, ServerConfig
from antiphon.server.web.http.openapi import schemas_of
from antiphon.weights.catalog.resolve import resolve
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until

INSTALLED = "make test-all installs schemathesis"
schemathesis = pytest.importorskip("schemathesis", reason=INSTALLED)
checks = pytest.importorskip("schemathesis.specs.openapi.checks", reason=INSTALLED)
failures = pytest.importorskip("schemathesis.core.failures", reason=INSTALLED)

pytestmark = pytest.mark.slow

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
EMBEDDING = ("/v1/embeddings", "/v1/rerank", "/v1/score", "/api/embed")
STATE = ("/livez", "/readyz", "/health", "/ping", "/version", "/metrics")
#: A plain request to it gets 426.
WEBSOCKET = "/v1/realtime"
#: Unloads a model that other tests use.
UNLOAD = ("delete", "/v1/models/{name}")
ROUTES = [
    route
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, Route) and route.include_in_schema and not route.path.startswith("/admin")
]
OPERATIONS = [
    (method.lower(), route.path_format)
    for route in ROUTES
    for method in route.methods or ()
    if route.path not in (*STATE, WEBSOCKET) and (method.lower(), route.path_format) != UNLOAD
]
#: Few requests suffice for what has few fields, and fewer where nothing is computed.
STORED = ("/v1/files", "/v1/batches", "/v1/messages/batches", "/v1/conversations", "/v1/chat/completions/")
SMALL = ("/v1/audio/", "/v1/responses/", *STORED)
#: What has no body and no parameter that could be wrong cannot be asked wrongly.
CASES = [
    (method, path, mode)
    for method, path in OPERATIONS
    for mode in schemathesis.GenerationMode
    if mode.is_positive or ("{" not in path and path not in ("/v1/models", "/api/tags", "/api/ps", "/api/version"))
]


@pytest.fixture(scope="module")
def small(servers: ServerPool, chat_folder: Path, encoder_folder: Path, stored_files: Path) -> Iterator[RunningServer]:
    """With a context so short that the longest answer is soon there, and the models of requests that name none."""
    for name in (*DEFAULT_SOUND_MODELS.values(), pronunciation.CATALOG_NAME):
        resolve(name)
    specs = tuple(ModelSpec.of(str(folder)) for folder in (chat_folder, encoder_folder))
    config = ServerConfig(models=specs, offline=True, files_dir=stored_files / "small")
    with servers.lease(config, {"kv_bytes": 16 << 20, "max_model_tokens": 128}) as running:
        yield running


def test_document_names_every_route(server: RunningServer) -> None:
    pages = httpx.get(server.url + "/openapi.json").json()
    paths = {path for path in pages["paths"] if not path.startswith("/admin")}
    assert len(OPERATIONS) > 60
    assert paths == {*(path for _, path in OPERATIONS), *STATE, WEBSOCKET}
    assert [route.path for route in ROUTES if schemas_of(route) is None] == [WEBSOCKET, "/metrics"]
    chat = pages["paths"]["/v1/chat/completions"]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ChatBody"}
    assert "text/event-stream" in chat["responses"]["200"]["content"]


#: What is certainly good: the first body of each, so that some are.
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hello"}]},
    "/api/chat": {"messages": [{"role": "user", "content": "hello"}]},
    "/api/generate": {"prompt": "hello"},
    "/api/embed": {"input": "hello"},
    "/api/embeddings": {"prompt": "hello"},
    "/v1/embeddings": {"input": "hello"},
    "/v1/rerank": {"query": "hello", "documents": ["one", "two"]},
    "/v1/score": {"text_1": "one", "text_2": "two"},
    "/tokenize": {"prompt": "hello"},
    "/detokenize": {"tokens": [1, 2]},
    "/apply-template": {"messages": [{"role": "user", "content": "hello"}]},
}

#: An item of every conversation that is made here.
KNOWN_ITEM = "msg_known"
#: No model here hears, so that there is no transcription.
KNOWN = {"name": "tiny-chat", "item_id": KNOWN_ITEM, "transcription_id": "transcription_unknown"}


def ended_message_batch(server: RunningServer) -> str:
    message = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    url = f"{server.url}/v1/messages/batches"
    batch_id = str(httpx.post(url, json={"requests": [{"custom_id": "a", "params": message}]}).json()["id"])
    wait_until(lambda: httpx.get(f"{url}/{batch_id}").json()["processing_status"] == "ended", "the batch to end")
    return batch_id


def make(server: RunningServer, parameter: str) -> str:
    """The id of a new object for a parameter of a path."""
    chat = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1, "store": True}
    message = {"role": "user", "content": "hello", "id": KNOWN_ITEM}
    made: dict[str, tuple[str, dict[str, Any]]] = {
        "response_id": ("/v1/responses", {"model": "tiny-chat", "input": "hello", "max_output_tokens": 1}),
        "completion_id": ("/v1/chat/completions", chat),
        "conversation_id": ("/v1/conversations", {"items": [message]}),
    }
    if parameter in KNOWN:
        return KNOWN[parameter]
    if parameter == "message_batch_id":
        return ended_message_batch(server)
    if parameter == "file_id":
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": chat}
        upload = {"file": json.dumps(line).encode()}
        answer = httpx.post(server.url + "/v1/files", data={"purpose": "batch"}, files=upload)
    elif parameter == "batch_id":
        body = {
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "input_file_id": make(server, "file_id"),
        }
        answer = httpx.post(server.url + "/v1/batches", json=body)
    else:
        path, body = made[parameter]
        answer = httpx.post(server.url + path, json=body)
    return str(answer.json()["id"])


@pytest.fixture(scope="module")
def operations(small: RunningServer) -> dict[tuple[str, str], Any]:
    """The operations of the document, by method and path."""
    schema = schemathesis.openapi.from_url(small.url + "/openapi.json")
    found = [result.ok() for result in schema.get_all_operations()]
    return {(operation.method, operation.path): operation for operation in found}


def send_random_requests(
    server: RunningServer, operation: Any, mode: schemathesis.GenerationMode, max_examples: int, **how: Any
) -> None:
    """Send valid or invalid bodies of the document's own schemas. `model` is one that is there three times in four."""
    method, path = operation.method, operation.path
    used = {"models": 0, "good": 0}

    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        **how,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case) -> None:
        if mode.is_positive and path in GOOD and method == "post" and not used["models"]:
            case.body = {**GOOD[path], "model": None}
        model = case.body.get("model") if isinstance(case.body, dict) else 0
        if model is None or (isinstance(model, str) and 1 <= len(model) <= 512):
            used["models"] += 1
            if used["models"] % 4:
                case.body["model"] = "bert" if path.startswith(EMBEDDING) else "tiny-chat"
        used["models"] += "{" in path or path == "/v1/batches"
        if "{" in path and used["models"] % 4:
            for parameter in re.findall(r"{(\w+)}", path):
                case.path_parameters[parameter] = make(server, parameter)
        if path == "/v1/batches" and isinstance(case.body, dict) and used["models"] % 4 and mode.is_positive:
            case.body["input_file_id"] = make(server, "file_id")
        answer = case.call(timeout=60)
        try:
            case.validate_response(answer, checks=CHECKS)
        except failures.FailureGroup as group:
            # A value that one form of a field rejects may be right in another.
            kept = [
                one
                for one in group.exceptions
                if not (type(one) is failures.AcceptedNegativeData and "Of/" in one.message)
            ]
            if kept:
                raise
        used["good"] += answer.status_code == 200

    run()
    # No model here hears or speaks, and random bytes are no recording.
    assert used["good"] or not mode.is_positive or path.endswith("/cancel") or path.startswith("/v1/audio/")
    server.wait_until_idle()
    assert httpx.get(server.url + "/readyz").status_code == 200


def is_small(method: str, path: str) -> bool:
    return "{" in path or method == "get" or path.startswith(SMALL)


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_random_requests_break_nothing(
    small: RunningServer,
    operations: dict[tuple[str, str], Any],
    method: str,
    path: str,
    mode: schemathesis.GenerationMode,
) -> None:
    """The same requests every time."""
    count = 2 if path.startswith(STORED) else 3 if is_small(method, path) else 8
    send_random_requests(small, operations[method, path], mode, count, derandomize=True)


@pytest.mark.soak
@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_many_random_requests_break_nothing(
    small: RunningServer,
    operations: dict[tuple[str, str], Any],
    method: str,
    path: str,
    mode: schemathesis.GenerationMode,
) -> None:
    count = 100 if is_small(method, path) else 600
    send_random_requests(small, operations[method, path], mode, count)
