"""`/v1/messages/batches` through Anthropic's client: results of every kind, pages, other keys, and a restart."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic.types.messages import MessageBatch

from antiphon.server.generation.text.generation import Generations
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.stored.batches import record
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

PATH = "/v1/messages/batches"
Owners = tuple[openai.OpenAI, openai.OpenAI]


def asked(name: str, text: str = "hello", **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return {
        "custom_id": name,
        "params": {"model": "tiny-chat", "max_tokens": 4, "temperature": 0, "messages": messages, **more},
    }


def opened(server: RunningServer, key: str = "unused") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)


@pytest.fixture
def claude(server: RunningServer) -> Iterator[anthropic.Anthropic]:
    with opened(server) as made:
        yield made


def ended(client: anthropic.Anthropic, batch: MessageBatch) -> MessageBatch:
    def now() -> MessageBatch:
        return client.messages.batches.retrieve(batch.id)

    wait_until(lambda: now().processing_status == "ended", "the batch's end", seen=now)
    return now()


def results_of(client: anthropic.Anthropic, batch: MessageBatch) -> dict[str, Any]:
    found = list(client.messages.batches.results(batch.id))
    by_id = {line.custom_id: line.result for line in found}
    assert len(by_id) == len(found)
    return by_id


def files_of(server: RunningServer) -> list[Any]:
    files: list[Any] = httpx.get(server.url + "/v1/files").json()["data"]
    return files


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Generations after the first wait until the event is set."""
    go, begun = threading.Event(), list[None]()
    original = Generations.open

    async def open_later(self: Generations) -> None:
        begun.append(None)
        while len(begun) > 1 and not go.is_set():
            await asyncio.sleep(0.005)
        await original(self)

    monkeypatch.setattr(Generations, "open", open_later)
    yield go
    go.set()


def test_results_are_those_of_messages(claude: anthropic.Anthropic, server: RunningServer) -> None:
    files = files_of(server)
    requests = [asked(f"q{number}", f"question {number}") for number in range(5)]
    wrong = asked("wrong", top_k="x")
    batch = claude.messages.batches.create(requests=[*requests, wrong, asked("unknown", model="no-such")])
    assert batch.type == "message_batch" and batch.processing_status == "in_progress"
    assert batch.request_counts.processing == 7 and batch.results_url is None and batch.ended_at is None
    assert (batch.expires_at - batch.created_at).total_seconds() == 24 * 3600
    done = ended(claude, batch)
    assert done.request_counts.to_dict() == {
        "processing": 0, "succeeded": 5, "errored": 2, "canceled": 0, "expired": 0
    }  # fmt: skip
    assert done.ended_at is not None and done.cancel_initiated_at is None
    assert done.results_url == f"{server.url}{PATH}/{batch.id}/results"
    found = results_of(claude, batch)
    for request in requests:
        result = found.pop(request["custom_id"])
        alone = httpx.post(server.url + "/v1/messages", json=request["params"], timeout=60).json()
        assert result.type == "succeeded" and result.message.to_dict()["content"] == alone["content"]
        assert result.message.usage.output_tokens == 4
    assert {result.type for result in found.values()} == {"errored"}
    assert found["wrong"].error.error.type == "invalid_request_error" and "top_k" in found["wrong"].error.error.message
    assert found["unknown"].error.error.type == "not_found_error"
    with pytest.raises(anthropic.ConflictError, match="has ended"):
        claude.messages.batches.cancel(batch.id)
    assert claude.messages.batches.delete(batch.id).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.batches.retrieve(batch.id)
    assert files_of(server) == files  # its requests and results are deleted with it


def test_cancelled_requests(claude: anthropic.Anthropic, held: threading.Event) -> None:
    batch = claude.messages.batches.create(requests=[asked(f"q{number}") for number in range(12)])
    for early in (claude.messages.batches.delete, lambda name: list(claude.messages.batches.results(name))):
        with pytest.raises((anthropic.ConflictError, anthropic.AnthropicError)):
            early(batch.id)
    cancelling = claude.messages.batches.cancel(batch.id)
    assert cancelling.processing_status == "canceling" and cancelling.cancel_initiated_at is not None
    assert cancelling.request_counts.processing == 12
    done = ended(claude, batch)
    counts = done.request_counts
    assert counts.canceled >= 11 and counts.canceled + counts.succeeded == 12 and not counts.errored
    kinds = [result.type for result in results_of(claude, batch).values()]
    assert (kinds.count("canceled"), kinds.count("succeeded")) == (counts.canceled, counts.succeeded)


def test_expired_requests(claude: anthropic.Anthropic, held: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "WINDOW_SECONDS", 0)
    batch = claude.messages.batches.create(requests=[asked("a"), asked("b"), asked("c")])
    done = ended(claude, batch)
    assert done.request_counts.expired >= 2 and not done.request_counts.errored and not done.request_counts.canceled
    kinds = [result.type for result in results_of(claude, batch).values()]
    assert kinds.count("expired") == done.request_counts.expired and len(kinds) == 3


def test_pages_newest_first(claude: anthropic.Anthropic, server: RunningServer) -> None:
    made = [claude.messages.batches.create(requests=[asked("a")]).id for _ in range(5)][::-1]
    listed = [batch.id for batch in claude.messages.batches.list(limit=2)]  # follows the pages
    assert listed[:5] == made
    page = claude.messages.batches.list(limit=2, after_id=made[0])
    assert [batch.id for batch in page.data] == made[1:3] and page.has_more
    back = claude.messages.batches.list(limit=2, before_id=made[3])
    assert [batch.id for batch in back.data] == made[1:3] and back.has_more
    assert (back.first_id, back.last_id) == (made[1], made[2])
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.batches.list(after_id="msgbatch_none")
    with server.openai() as client:  # each API lists its own
        assert not {batch.id for batch in client.batches.list()} & {name.removeprefix("msg") for name in made}
        with pytest.raises(openai.NotFoundError):
            client.batches.retrieve(made[0].removeprefix("msg"))


def test_other_keys_do_not_find_it(shared: RunningServer) -> None:
    with opened(shared, "first-store-key") as first, opened(shared, "second-store-key") as second:
        batch = first.messages.batches.create(requests=[asked("a")])
        ended(first, batch)
        others = second.messages.batches
        for call in (others.retrieve, others.cancel, others.delete, others.results):
            with pytest.raises(anthropic.NotFoundError):
                call(batch.id)
        assert not list(others.list())
        with pytest.raises(anthropic.BadRequestError, match="more than 50 requests"):
            second.messages.batches.create(requests=[asked(f"q{number}", "") for number in range(51)])
        with pytest.raises(anthropic.APIStatusError, match="bytes"):
            second.messages.batches.create(requests=[asked("a", "x" * 30_000)])
        assert first.messages.batches.delete(batch.id).id == batch.id


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "requests is missing"),
        ({"requests": []}, "requests is empty"),
        ({"requests": 3}, "requests is not a list"),
        ({"requests": [0]}, "requests is not a list of objects"),
        ({"requests": [{"custom_id": "a"}]}, "requests[0].params is missing"),
        ({"requests": [asked("a"), asked("a")]}, "requests[1].custom_id 'a' is that of an earlier request"),
        ({"requests": [asked("a b")]}, "requests[0].custom_id is not a string"),
        ({"requests": [{"custom_id": "a", "params": []}]}, "requests[0].params is not an object"),
        ({"requests": [asked("a", stream=True)]}, "not streamed"),
        ({"requests": [asked("a", "x" * (1 << 20))]}, "requests[0] has more than 1,048,576 bytes"),
        (b'{"requests": [{"custom_id": "a"', "it ends in the middle"),
        (b'{"requests": [{"custom_id": "a" 3}]}', "requests[0] is not JSON"),
        (b"}{", "closes"),
        (b"[]", "requests is missing"),
        (b'{"requests": [' + b"," * 100_000, "beside its 0 requests"),
        (b'{"requests": [{"custom_id": "a", "params": ' + b"[" * 300 + b"]" * 300 + b"}]}", "levels"),
    ],
)
def test_bodies_that_are_rejected(server: RunningServer, body: Any, words: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    before = files_of(server)
    answer = httpx.post(server.url + PATH, content=data, headers={"content-type": "application/json"}, timeout=60)
    assert answer.status_code == 400 and answer.json()["type"] == "error"
    assert words in answer.json()["error"]["message"]
    assert files_of(server) == before  # nothing is left of it


def test_unknown_fields_are_named(server: RunningServer, claude: anthropic.Anthropic) -> None:
    body = {"requests": [{**asked("a"), "priority": 1}], "name": "mine"}
    answer = httpx.post(server.url + PATH, json=body, timeout=60)
    assert answer.status_code == 200 and answer.headers["x-antiphon-ignored"] == "requests[].priority, name"
    assert httpx.post(server.url + PATH, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415


def test_results_after_a_restart(chat_folder: Path, tmp_path: Path) -> None:
    config = ServerConfig(models=(ModelSpec.of(str(chat_folder)),), files_dir=tmp_path / "files", offline=True)
    with running_server(config, {"kv_bytes": 16 << 20}) as first, opened(first) as client:
        batch = client.messages.batches.create(requests=[asked("a"), asked("wrong", top_k="x")])
        ended(client, batch)
        before = results_of(client, batch)
    with running_server(config, {"kv_bytes": 16 << 20}) as second, opened(second) as client:
        again = client.messages.batches.retrieve(batch.id)
        assert again.processing_status == "ended" and again.request_counts.succeeded == 1
        assert results_of(client, batch) == before
