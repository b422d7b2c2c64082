"""`/v1/batches` through openai-python: every state, the exact lines of the results, limits and other keys."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types import Batch

from antiphon.server.generation.text.generation import Generations
from antiphon.server.stored.batches import batch_requests, journal
from antiphon.server.stored.batches.record import BatchRecord
from antiphon.server.stored.batches.store import BatchStore
from antiphon.server.web.http.context import LOW_PRIORITY, RequestContext
from antiphon.server.web.middleware.active_requests import ActiveRequests
from support.server.http_server import RunningServer
from support.waiting import wait_until

CHAT = "/v1/chat/completions"
Owners = tuple[openai.OpenAI, openai.OpenAI]


def chat_line(name: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    body = {"model": "tiny-chat", "messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0}
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": {**body, **more}}


def submit(client: openai.OpenAI, lines: list[Any], endpoint: Any = CHAT, **more: Any) -> Batch:
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    made = client.files.create(file=("in.jsonl", data), purpose="batch")
    return client.batches.create(input_file_id=made.id, endpoint=endpoint, completion_window="24h", **more)


def ended(client: openai.OpenAI, batch: Batch) -> Batch:
    def now() -> Batch:
        return client.batches.retrieve(batch.id)

    wait_until(lambda: now().status in ("completed", "failed", "cancelled", "expired"), "the batch's end", seen=now)
    return now()


def lines_of(client: openai.OpenAI, file_id: str | None) -> dict[str, dict[str, Any]]:
    """The lines of a result file by `custom_id`, each once."""
    assert file_id is not None
    lines = [json.loads(line) for line in client.files.content(file_id).text.splitlines()]
    by_id = {line["custom_id"]: line for line in lines}
    assert len(by_id) == len(lines)
    return by_id


@pytest.fixture
def tidy(owners: Owners) -> Iterator[Owners]:
    """Both keys without files afterwards, for their quotas are small."""
    yield owners
    for client in owners:
        for batch in client.batches.list():
            if batch.status in ("validating", "in_progress"):
                client.batches.cancel(batch.id)
            ended(client, batch)
        for found in client.files.list():
            client.files.delete(found.id)


def test_results_are_those_of_the_routes(client: openai.OpenAI) -> None:
    texts = [f"question {number}" for number in range(12)]
    lines = [chat_line(f"r{number}", text) for number, text in enumerate(texts)]
    lines.insert(5, chat_line("wrong", top_k="x"))
    lines.insert(7, {**chat_line("unknown"), "body": {"model": "no-such-model", "messages": []}})
    batch = submit(client, lines, metadata={"a": "b"})
    assert batch.status == "validating" and batch.metadata == {"a": "b"}
    done = ended(client, batch)
    assert done.status == "completed" and done.request_counts is not None
    assert done.request_counts.to_dict() == {"total": 14, "completed": 12, "failed": 2}
    moments = [done.created_at, done.in_progress_at, done.finalizing_at, done.completed_at]
    assert None not in moments and moments == sorted(moments, key=lambda one: one or 0)
    results = lines_of(client, done.output_file_id)
    for number, text in enumerate(texts):
        line = results.pop(f"r{number}")
        assert set(line) == {"id", "custom_id", "response", "error"} and line["error"] is None
        assert line["id"].startswith("batch_req_") and line["response"]["status_code"] == 200
        assert line["response"]["request_id"]
        alone = client.chat.completions.create(**chat_line("", text)["body"])
        assert line["response"]["body"]["choices"] == alone.to_dict()["choices"]
    assert not results
    failures = lines_of(client, done.error_file_id)
    assert failures["wrong"]["response"]["status_code"] == 400
    assert failures["wrong"]["response"]["body"]["error"]["param"] == "top_k"
    assert failures["unknown"]["response"]["status_code"] in (400, 404) and failures["unknown"]["error"] is None
    assert done.usage is not None and done.usage.output_tokens == 48
    written = client.files.retrieve(done.output_file_id or "")
    assert written.purpose == "batch_output" and written.filename == f"{batch.id}_output.jsonl"
    assert written.expires_at == written.created_at + 30 * 24 * 3600
    with pytest.raises(openai.ConflictError, match="has ended with status completed"):
        client.batches.cancel(batch.id)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/completions", {"model": "tiny-chat", "prompt": "a", "max_tokens": 2}),
        ("/v1/embeddings", {"model": "bert", "input": "hello"}),
        ("/v1/responses", {"model": "tiny-chat", "input": "hello", "max_output_tokens": 2}),
    ],
)
def test_every_endpoint(client: openai.OpenAI, endpoint: str, body: dict[str, Any]) -> None:
    line = {"custom_id": "a", "method": "POST", "url": endpoint, "body": body}
    batch = ended(
        client, submit(client, [line, b""], endpoint, output_expires_after={"anchor": "created_at", "seconds": 3600})
    )
    assert batch.status == "completed" and batch.error_file_id is None and batch.model == body["model"]
    answer = lines_of(client, batch.output_file_id)["a"]["response"]["body"]
    assert answer["model"] == body["model"]
    assert not answer.get("store")  # unless the line asks for it
    written = client.files.retrieve(batch.output_file_id or "")
    assert written.expires_at == written.created_at + 3600


def test_faults_of_the_input_are_named_by_line(client: openai.OpenAI) -> None:
    lines: list[Any] = [
        chat_line("good"),
        b"{",
        b"",
        b"[]",
        {**chat_line("url"), "url": "/v1/completions"},
        chat_line("good"),
        {"custom_id": "x"},
        {**chat_line("method"), "method": "GET"},
        {**chat_line("x"), "body": 3},
        {**chat_line("x"), "custom_id": 3},
        chat_line("stream", stream=True),
        {**chat_line("more"), "extra": 1},
        b"\xff\xfe",
        chat_line("long", "x" * (1 << 20)),
    ]
    batch = ended(client, submit(client, lines))
    assert batch.status == "failed" and batch.failed_at and batch.output_file_id is None
    assert batch.errors is not None and batch.errors.data is not None
    assert [(fault.line, fault.code) for fault in batch.errors.data] == [
        (2, "invalid_json_line"),
        (4, "invalid_json_line"),
        (5, "mismatched_url"),
        (6, "duplicate_custom_id"),
        (7, "missing_required_parameter"),
        (8, "invalid_method"),
        (9, "invalid_body"),
        (10, "invalid_custom_id"),
        (11, "invalid_body"),
        (12, "unknown_parameter"),
        (13, "invalid_json_line"),
        (14, "line_too_long"),
    ]
    empty = ended(client, submit(client, [b""]))
    assert empty.errors is not None and [fault.code for fault in empty.errors.data or ()] == ["empty_file"]


def test_requests_that_are_rejected(client: openai.OpenAI, server: RunningServer) -> None:
    made = client.files.create(file=b"{}", purpose="user_data")
    good = {"input_file_id": made.id, "endpoint": CHAT, "completion_window": "24h"}
    for change, param in (
        ({}, "input_file_id"),
        ({"endpoint": "/v1/files"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a" * 65: "b"}}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after"),
    ):
        answer = httpx.post(server.url + "/v1/batches", json={**good, **change})
        assert answer.status_code == 400 and answer.json()["error"]["param"].startswith(param), answer.text
    with pytest.raises(openai.NotFoundError) as missing:
        client.batches.create(input_file_id="file-none", endpoint=CHAT, completion_window="24h")
    assert missing.value.param == "input_file_id"
    for call in (client.batches.retrieve, client.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            call("batch_none")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, list[int]]]:
    """Generations wait until the event is set; the list has their priorities."""
    go, priorities = threading.Event(), list[int]()
    original = Generations.open

    async def open_later(self: Generations) -> None:
        priorities.extend(call.priority for call in self._calls)
        while not go.is_set():
            await asyncio.sleep(0.005)
        await original(self)

    monkeypatch.setattr(Generations, "open", open_later)
    yield go, priorities
    go.set()


def test_cancelling_keeps_what_is_done(client: openai.OpenAI, server: RunningServer) -> None:
    endless = {"max_tokens": 3500, "ignore_eos": True}
    batch = submit(client, [chat_line("short"), *(chat_line(f"long{number}", **endless) for number in range(20))])

    def done() -> int:
        counts = client.batches.retrieve(batch.id).request_counts
        assert counts is not None
        return counts.completed

    wait_until(done, "a first completed line")
    with pytest.raises(openai.ConflictError, match="input of a batch") as in_use:
        client.files.delete(batch.input_file_id)
    assert in_use.value.code == "file_in_use"
    assert client.batches.cancel(batch.id).status == "cancelling"
    over = ended(client, batch)
    assert over.status == "cancelled" and over.cancelling_at and over.cancelled_at
    assert "short" in lines_of(client, over.output_file_id)
    assert over.request_counts is not None and over.request_counts.total == 21 > over.request_counts.completed
    assert client.batches.cancel(batch.id).status == "cancelled"
    server.wait_until_idle()
    client.files.delete(batch.input_file_id)


def test_cancelling_is_answered_though_the_batch_ends_meanwhile(
    client: openai.OpenAI, held: tuple[threading.Event, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BatchStore.save

    async def save_late(self: BatchStore, record: BatchRecord) -> None:
        while record.status == "cancelling":  # the batch's own task goes on
            await asyncio.sleep(0.005)
        await original(self, record)

    monkeypatch.setattr(BatchStore, "save", save_late)
    batch = submit(client, [chat_line("held")])
    wait_until(lambda: held[1], "the request of the batch")
    answer = client.batches.cancel(batch.id)
    assert answer.status == "cancelling" and answer.cancelling_at
    assert ended(client, batch).status == "cancelled"


def test_clients_go_first(
    client: openai.OpenAI, server: RunningServer, held: tuple[threading.Event, list[int]]
) -> None:
    """Without other requests eight run at once; while one of a client is in flight, only one more is begun."""
    go, priorities = held
    batch = submit(client, [chat_line(f"r{number}") for number in range(12)])
    wait_until(lambda: len(priorities) == 8, "eight requests", seen=lambda: priorities)
    assert set(priorities) == {LOW_PRIORITY}
    threads = [threading.Thread(target=lambda: client.chat.completions.create(**chat_line("")["body"]))]
    threads[0].start()
    wait_until(lambda: len(priorities) == 9, "the client's request", seen=lambda: priorities)
    assert priorities[-1] == 2 and server.serving.requests.num_of_clients >= 1
    go.set()
    threads[0].join(120)
    assert ended(client, batch).status == "completed"


def test_a_lane_narrows_while_clients_wait() -> None:
    from antiphon.server.stored.batches.lane import Lane

    async def main() -> None:
        requests = ActiveRequests()
        lane = Lane(requests, 3)
        human = RequestContext("human")
        requests.add(human)
        await lane.acquire()
        second = asyncio.create_task(lane.acquire())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.done()
        requests.remove(human)
        await asyncio.wait_for(second, 60)
        await asyncio.wait_for(lane.acquire(), 60)
        third = asyncio.create_task(lane.acquire())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not third.done()
        lane.release()
        await asyncio.wait_for(third, 60)

    asyncio.run(main())


def test_other_keys_and_quotas(tidy: Owners) -> None:
    first, second = tidy
    batch = submit(first, [chat_line("a")])
    assert [one.id for one in first.batches.list()] == [batch.id] and list(second.batches.list()) == []
    for call in (second.batches.retrieve, second.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            call(batch.id)
    with pytest.raises(openai.NotFoundError):
        second.batches.create(input_file_id=batch.input_file_id, endpoint=CHAT, completion_window="24h")
    done = ended(first, batch)
    with pytest.raises(openai.NotFoundError):
        second.files.content(done.output_file_id or "")
    many = ended(second, submit(second, [chat_line(f"r{number}") for number in range(51)]))
    assert many.errors is not None and "more than 50 requests" in str(many.errors.data)
    newest = submit(first, [chat_line("b")])
    assert [one.id for one in first.batches.list(limit=1)][:2] == [newest.id, batch.id]
    assert first.batches.list(limit=0).data == []


def test_results_end_at_the_quota(tidy: Owners) -> None:
    client = tidy[0]
    lines = [chat_line(f"r{number}", "x" * 50, logprobs=True, top_logprobs=9, max_tokens=12) for number in range(40)]
    done = ended(client, submit(client, lines))
    assert done.status == "completed" and done.request_counts is not None and done.request_counts.failed > 0
    good, failed = lines_of(client, done.output_file_id), lines_of(client, done.error_file_id)
    assert good.keys() | failed.keys() == {f"r{number}" for number in range(40)} and not good.keys() & failed.keys()
    assert {line["error"]["code"] for line in failed.values()} == {"storage_quota_exceeded"}


def test_a_full_disk_makes_a_batch_wait(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost and nothing written twice, though each line is torn at first."""
    tried: list[int] = []
    written = os.write

    def torn(path: Any, data: bytes, size: int) -> None:
        tried.append(size)
        if len(tried) % 2:

            def half(descriptor: int, rest: Any) -> int:
                if len(rest) == len(data):
                    return written(descriptor, rest[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            with monkeypatch.context() as patched:
                patched.setattr(os, "write", half)
                original(path, data, size)
        else:
            original(path, data, size)

    original: Callable[[Any, bytes, int], None] = journal.append_to
    monkeypatch.setattr(journal, "append_to", torn)
    monkeypatch.setattr(batch_requests, "pause_when_full", lambda: 0.01)
    done = ended(client, submit(client, [chat_line(f"r{number}") for number in range(6)]))
    assert done.status == "completed" and len(tried) == 12
    assert lines_of(client, done.output_file_id).keys() == {f"r{number}" for number in range(6)}
