"""Huge bodies of message batches, valid and not, do not keep the server from answering `/livez`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from support.server.http_server import RunningServer
from support.server.livez import polled

PATH = "/v1/messages/batches"
BLOCK = {"type": "text", "text": "x" * 300}
ONE = {"model": "none", "max_tokens": 1, "messages": [{"role": "user", "content": [BLOCK] * 3}]}
PIECE = 1 << 20


def pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def bodies() -> dict[str, bytes]:
    """Requests: the most of one batch and more; one of a million brackets; 40 MB between them."""
    request = json.dumps({"custom_id": "NAME", "params": ONE}).encode()
    many = b",".join(request.replace(b"NAME", b"q%d" % number) for number in range(50_001))
    start = b'{"requests": ['
    return {
        "too many": start + many + b"]}",
        "brackets": start + b'{"a": ' + b"[]," * 300_000,
        "between": start + b" " * (40 << 20),
        "strings": start + b'{"a": "' + b"\\\\" * 500_000 + b'"},' * 3,
    }


@pytest.mark.alone
def test_livez_answers_beside_huge_bodies(server: RunningServer) -> None:
    headers = {"content-type": "application/json"}

    def post(data: bytes) -> int:
        return httpx.post(server.url + PATH, content=pieces(data), headers=headers, timeout=300).status_code

    given = bodies()
    with polled(server.url) as livez, ThreadPoolExecutor(len(given)) as pool:
        statuses = dict(zip(given, pool.map(post, given.values()), strict=True))
    print(f"longest silence of /livez: {max(livez) * 1000:.0f} ms over {len(livez)} polls; {statuses}")
    assert set(statuses.values()) == {400}
    assert max(livez) < 2.0
