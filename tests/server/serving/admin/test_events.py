"""`/admin/events` over a real engine process: a snapshot, what happens then, and never a text."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import httpx
import openai
import pytest

from antiphon.runtime.activity.rows import REQUEST_COLUMNS, STEP_COLUMNS
from antiphon.server.serving.admin.activity_hub import MAX_LISTENERS
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until

API, ADMIN = "an-ordinary-key", "an-admins-own-key"
SECRET = "zyzzyva quixotry"


@pytest.fixture
def watched(servers: ServerPool, chat_folder: Path, encoder_folder: Path) -> Iterator[RunningServer]:
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)), ModelSpec.of(str(encoder_folder))),
        keys=KeyRing([API]),
        admin_keys=KeyRing([ADMIN]),
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 16 << 20, "max_running": 2}) as running:
        yield running


@pytest.fixture
def client(watched: RunningServer) -> Iterator[openai.OpenAI]:
    with watched.openai(API) as made:
        yield made


class Reading:
    """A listener in a thread, and all that it was sent."""

    def __init__(self, response: httpx.Response) -> None:
        self._events: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self._rows: deque[list[Any]] = deque()  # of requests, that were not asked for yet
        self.is_over = threading.Event()
        self.text = ""
        threading.Thread(target=self._read, args=(response,), daemon=True).start()

    def _read(self, response: httpx.Response) -> None:
        name = ""
        try:
            for line in response.iter_lines():
                self.text += line + "\n"
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    self._events.put((name, json.loads(line[6:])))
        except (httpx.HTTPError, httpx.StreamError):
            pass
        finally:
            self.is_over.set()

    def until(self, wanted: str, key: str = "", seconds: float = 60.0) -> dict[str, Any]:
        """The next event of that name, with that key if one is given."""
        while True:
            try:
                name, content = self._events.get(timeout=seconds)
            except Empty:
                raise AssertionError(f"no event {wanted} with {key!r} came after {self.text[-500:]}") from None
            if name == wanted and (not key or key in content):
                return content

    def request(self, condition: Any, seconds: float = 60.0) -> dict[str, Any]:
        """The next row of a request that fulfils the condition."""
        while True:
            while not self._rows:  # one event may have the rows of several requests
                self._rows.extend(self.until("activity", "requests", seconds)["requests"])
            row = dict(zip(REQUEST_COLUMNS, self._rows.popleft(), strict=True))
            if condition(row):
                return row


@contextmanager
def listening(server: RunningServer) -> Iterator[Reading]:
    url = server.url + "/admin/events"
    with httpx.stream("GET", url, headers={"authorization": f"Bearer {ADMIN}"}, timeout=60) as response:
        assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
        yield Reading(response)


def hub_of(server: RunningServer) -> Any:
    return getattr(server.serving.client.on_activity, "__self__")  # noqa: B009


def complete(client: openai.OpenAI, **more: Any) -> str:
    answer = client.completions.create(model="tiny-chat", prompt=SECRET, max_tokens=12, extra_body=more)
    return answer.choices[0].text


def test_only_administrators_listen(watched: RunningServer) -> None:
    for headers in ({}, {"authorization": f"Bearer {API}"}, {"authorization": "Bearer wrong"}):
        refused = httpx.get(watched.url + "/admin/events", headers=headers)
        assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
    foreign = {"authorization": f"Bearer {ADMIN}", "origin": "http://elsewhere.example"}
    assert httpx.get(watched.url + "/admin/events", headers=foreign).status_code == 403


def test_a_snapshot_then_the_life_of_a_request(watched: RunningServer, client: openai.OpenAI) -> None:
    with listening(watched) as reading:
        assert reading.until("engine")["state"] == "ready"
        snapshot = reading.until("snapshot")
        assert snapshot["step_columns"] == list(STEP_COLUMNS)
        assert {model["name"]: model["role"] for model in snapshot["models"]} == {
            "tiny-chat": "decoder",
            "bert": "embedding",
        }
        models = snapshot["memory"]["cpu"]["models"]
        assert models["tiny-chat"]["weight_bytes"] > 0 and models["bert"]["kv_bytes"] == 0
        assert snapshot["memory"]["cpu"]["kv_bytes"] == 16 << 20
        complete(client, ignore_eos=True)
        row = reading.request(lambda row: row["state"] == "finished")
        assert row["model"] == "tiny-chat" and row["task"] == "generate" and row["output_tokens"] == 12
        assert row["arrived"] <= row["first_scheduled"] <= row["first_token"] <= row["finished"]
    with listening(watched) as reading:
        again = reading.until("snapshot")
        assert row["id"] in [request[0] for request in again["requests"]]
        kinds = {dict(zip(STEP_COLUMNS, step, strict=True))["kind"] for step in again["steps"]}
        assert {"prefill", "decode"} <= kinds
        client.embeddings.create(model="bert", input="a word")
        found: list[dict[str, Any]] = []
        while "embedding" not in [step["kind"] for step in found]:
            steps = reading.until("activity", "steps")["steps"]
            found += [dict(zip(STEP_COLUMNS, step, strict=True)) for step in steps]
        assert found[-1]["kind"] == "embedding" and found[-1]["model"] == "bert" and found[-1]["prefills"] == 1


def test_queues_cache_and_memory_while_requests_run(watched: RunningServer, client: openai.OpenAI) -> None:
    details: dict[str, Any] = dict(
        model="tiny-chat", prompt="hello", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    )
    with listening(watched) as reading:
        reading.until("snapshot")
        streams = [client.completions.create(**details) for _ in range(3)]
        while reading.until("activity", "queues")["queues"]["tiny-chat"] != [2, 1]:
            pass
        maps = reading.until("activity", "cache")["cache"]
        while not any(len(pool["owners"]) == 2 for pool in maps):
            maps = reading.until("activity", "cache")["cache"]
        assert sum(maps[0]["runs"][1::2]) == -(-maps[0]["num_pages"] // maps[0]["pages_per_cell"])
        assert reading.until("activity", "gaps")["gaps"]["tiny-chat"]
        for stream in streams:
            stream.close()
        reading.request(lambda row: row["state"] == "aborted")
    watched.wait_until_idle()


def test_no_text_is_sent(watched: RunningServer, client: openai.OpenAI) -> None:
    """Neither the prompt nor the answer, as text or as tokens; the client's own request id is not text."""
    with listening(watched) as reading:
        reading.until("snapshot")
        answer = complete(client, ignore_eos=True, temperature=0)
        messages: Any = [{"role": "user", "content": SECRET}]
        client.chat.completions.create(model="tiny-chat", messages=messages, max_tokens=8)
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model="tiny-chat", prompt=SECRET * 5000, max_tokens=2)
        for _ in range(2):
            reading.request(lambda row: row["state"] == "finished")
        with listening(watched) as second:
            second.until("snapshot")
            text = reading.text + second.text
    assert len(text) > 1000
    for word in (*SECRET.split(), *(word for word in answer.split() if len(word) > 3)):
        assert word not in text
    known = set(REQUEST_COLUMNS) | set(STEP_COLUMNS)
    assert not known & {"prompt", "tokens", "text", "output", "error"}


def test_listeners_share_one_source_and_the_last_ends_it(watched: RunningServer, client: openai.OpenAI) -> None:
    hub = hub_of(watched)
    wait_until(lambda: not len(hub), "the last listener to be gone", seen=lambda: len(hub))
    with listening(watched) as first, listening(watched) as second:
        first.until("snapshot")
        second.until("snapshot")
        assert len(hub) == 2
        complete(client)
        ended = [reading.request(lambda row: row["state"] == "finished") for reading in (first, second)]
        assert ended[0] == ended[1]
    wait_until(lambda: not len(hub), "the last listener to be gone", seen=lambda: len(hub))
    watched.wait_until_idle()  # what was under way has come
    received: list[Any] = []
    taken = hub._take
    watched.serving.client.on_activity = received.append
    try:
        complete(client)
        watched.wait_until_idle()
        assert not received
    finally:
        watched.serving.client.on_activity = taken


def test_there_may_be_so_many_listeners(watched: RunningServer) -> None:
    hub = hub_of(watched)
    wait_until(lambda: not len(hub), "the last listener to be gone", seen=lambda: len(hub))
    headers = {"authorization": f"Bearer {ADMIN}"}
    with httpx.Client(base_url=watched.url, headers=headers, timeout=60) as http:
        open_ = [http.send(http.build_request("GET", "/admin/events"), stream=True) for _ in range(MAX_LISTENERS)]
        refused = http.get("/admin/events")
        assert refused.status_code == 503 and refused.json()["error"]["code"] == "too_many_listeners"
        for response in open_:
            response.close()
    wait_until(lambda: not len(hub), "the last listener to be gone", seen=lambda: len(hub))


def test_a_killed_engine_is_announced_and_a_snapshot_follows(watched: RunningServer, client: openai.OpenAI) -> None:
    with listening(watched) as reading:
        reading.until("snapshot")
        pid = watched.serving.client.pid
        assert pid is not None
        with watched.held_restart():
            os.kill(pid, signal.SIGKILL)
            assert reading.until("engine")["state"] == "restarting"
        back = reading.until("engine")
        while back["state"] != "ready":
            back = reading.until("engine")
        assert back["restarts"] >= 1
        snapshot = reading.until("snapshot")
        assert not snapshot["steps"] and {model["name"] for model in snapshot["models"]} == {"tiny-chat", "bert"}
        complete(client)
        assert reading.request(lambda row: row["state"] == "finished")["task"] == "generate"


def test_a_stream_ends_when_the_server_drains(watched: RunningServer) -> None:
    requests = watched.serving.requests
    wait_until(lambda: not len(requests), "all requests to end", seen=lambda: list(requests))
    with listening(watched) as reading:
        reading.until("snapshot")
        [context] = watched.serving.requests
        assert context.is_watching and not watched.serving.requests.num_of_clients
        watched.loop.call_soon_threadsafe(context.announce_draining)
        assert reading.is_over.wait(60)
