"""Clients that go away: what they asked for ends, and its memory comes back."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import openai
import orjson
import pytest

from support.server.http_server import RunningServer
from support.waiting import wait_until

ENDLESS = {"model": "tiny-chat", "max_tokens": 4000, "ignore_eos": True}
CHAT = {**ENDLESS, "messages": [{"role": "user", "content": "hello"}]}


def num_whole(server: RunningServer) -> float:
    """Return how many answers have ever come to their last token."""
    lines = [line for line in server.metrics().splitlines() if line.startswith("antiphon:request_success_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'finished_reason="length"' in line)


@contextmanager
def cut_short(server: RunningServer) -> Iterator[None]:
    """Check that what is asked inside ends, and before its last token."""
    before = num_whole(server)
    yield
    requests = server.serving.requests
    wait_until(lambda: not len(requests), "the request's end", seen=lambda: list(requests))
    server.wait_until_idle()
    assert num_whole(server) == before


def wait_until_running(server: RunningServer) -> None:
    wait_until(lambda: server.figures()["running"], "a request to run", seen=server.figures)


def send(server: RunningServer, path: str, body: dict[str, object]) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    data = orjson.dumps(body)
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    connection.sendall(f"POST {path} HTTP/1.1\r\n{headers}\r\n".encode() + data)
    return connection


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_a_dropped_connection_ends_the_request(server: RunningServer, stream: bool, n: int) -> None:
    with cut_short(server):
        connection = send(server, "/v1/chat/completions", {**CHAT, "stream": stream, "n": n})
        wait_until_running(server)
        connection.close()


def test_a_dropped_connection_ends_all_prompts(server: RunningServer) -> None:
    with cut_short(server):
        connection = send(server, "/v1/completions", {**ENDLESS, "prompt": ["hello", "the", "a"], "stream": True})
        wait_until_running(server)
        connection.close()


def test_leaving_a_stream_early(server: RunningServer, client: openai.OpenAI) -> None:
    details = dict(model="tiny-chat", prompt="hello", max_tokens=4000, extra_body={"ignore_eos": True})
    with cut_short(server), client.completions.create(**details, stream=True) as stream:
        for _, _chunk in zip(range(3), stream, strict=False):
            pass


def test_a_body_that_never_comes_to_its_end(server: RunningServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    lines = ["POST /tokenize HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += ["Content-Length: 100", "", "{"]
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall("\r\n".join(lines).encode())
    assert httpx.get(server.url + "/livez").status_code == 200


def test_a_slow_reader_loses_nothing(server: RunningServer) -> None:
    body = {**ENDLESS, "prompt": "hello", "max_tokens": 1500, "temperature": 0}
    whole = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()["choices"][0]["text"]
    text = ""
    with httpx.stream("POST", server.url + "/v1/completions", json={**body, "stream": True}, timeout=60) as answer:
        for number, line in enumerate(answer.iter_lines()):
            if number < 40:
                time.sleep(0.02)
            if line.startswith("data: {"):
                text += orjson.loads(line[6:])["choices"][0]["text"]
    assert text == whole
    server.wait_until_idle()
