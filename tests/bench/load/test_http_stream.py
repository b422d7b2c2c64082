"""The HTTP client: answers cut at every position, the three kinds of body, wrong answers."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.bench.load.http_stream import CollectedAnswer, HttpClient, TransferError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na;x=1\r\n0123456789\r\n0\r\n\r\n"
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nabc0123456789"
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nabc0123456789"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + COUNTED


def exchange(pieces: list[bytes], times: int = 1, timeout: float = 60.0) -> list[CollectedAnswer]:
    """What the client makes of an answer that is written in these pieces."""
    whole = b"".join(pieces)
    closes = not whole or whole.startswith(b"HTTP/1.0") or whole.endswith(b"!")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if closes:
                break
        writer.close()

    async def main() -> list[CollectedAnswer]:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/", timeout=timeout)
        answers = []
        try:
            for _ in range(times):
                answer = CollectedAnswer()
                await client.request("POST", "/x", b"{}", answer)
                answers.append(answer)
        finally:
            client.close()
            server.close()
        return answers

    return asyncio.run(main())


@pytest.mark.parametrize("answer", [CHUNKED, COUNTED, TO_THE_END, INTERIM], ids=["chunked", "counted", "end", "100"])
def test_bodies_cut_anywhere(answer: bytes) -> None:
    for size in (1, 2, 3, 7, 50, len(answer)):
        pieces = [answer[index : index + size] for index in range(0, len(answer), size)]
        for got in exchange(pieces, times=2):
            assert (got.status, got.content) == (200, b"abc0123456789")


def test_an_empty_body() -> None:
    [got] = exchange([b"HTTP/1.1 204 No Content\r\n\r\n"])
    assert (got.status, got.content) == (204, b"")


@pytest.mark.parametrize("answer", [CHUNKED, COUNTED])
@pytest.mark.parametrize("rest", [b"more", COUNTED])
def test_bytes_after_an_answer_end_its_connection(answer: bytes, rest: bytes) -> None:
    for got in exchange([answer + rest], times=2):
        assert (got.status, got.content) == (200, b"abc0123456789")


def test_the_length_of_an_interim_answer_is_not_the_answers() -> None:
    [got] = exchange([b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc!"])
    assert (got.status, got.content) == (200, b"abc!")


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([], "disconnected"),
        ([CHUNKED[:60] + b"!"], "disconnected"),
        ([COUNTED[:-4] + b"!"], "disconnected"),
        ([b"SSH-2.0-x\r\n\r\n!"], "invalid_response"),
        ([CHUNKED.replace(b"\r\n3\r\n", b"\r\nzz\r\n") + b"!"], "invalid_response"),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000 + b"!"], "invalid_response"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"], "timeout"),
    ],
)
def test_wrong_answers(pieces: list[bytes], kind: str) -> None:
    with pytest.raises(TransferError) as raised:
        exchange(pieces, timeout=0.3 if kind == "timeout" else 60.0)
    assert raised.value.kind == kind
