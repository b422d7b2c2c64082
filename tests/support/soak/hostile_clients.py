"""Clients that send garbage, too much, too slowly or with a wrong key: the server must reject or disconnect them."""

from __future__ import annotations

import asyncio
import contextlib
import random

import orjson

from support.soak.crowd import Crowd, kind
from support.soak.messages import close, parsed, request_bytes
from support.soak.text_clients import QUESTIONS, pick, question_body

PATH = "/v1/completions"
HUGE_BYTES = 12 << 20
CHUNKED = {"content_length": "", "transfer_encoding": "chunked"}


@kind(share=7)
async def garbage(crowd: Crowd, source: random.Random) -> None:
    body = question_body(source.choice(QUESTIONS))
    noise = source.randbytes(200)
    wrong_type = body.replace(b'"max_tokens":', b'"max_tokens":"x","n":')
    unknown_model = question_body(source.choice(QUESTIONS), model="absent-model")
    multipart = "multipart/form-data; boundary=x"
    name, sent, statuses = source.choice(
        [
            ("not JSON", request_bytes(PATH, noise, crowd.key), {400}),
            ("cut JSON", request_bytes(PATH, body[:-5], crowd.key), {400}),
            ("nested JSON", request_bytes(PATH, b"[" * 50_000, crowd.key), {400}),
            ("wrong type", request_bytes(PATH, wrong_type, crowd.key), {400}),
            ("unknown model", request_bytes(PATH, unknown_model, crowd.key), {404}),
            ("unknown path", request_bytes("/v1/absent", body, crowd.key), {404}),
            ("not a form", request_bytes("/v1/audio/transcriptions", noise, crowd.key, multipart), {400}),
            ("not HTTP", noise + b"\r\n\r\n", {0, 400}),
            ("bad length", request_bytes(PATH, body, crowd.key, content_length="-5"), {0, 400}),
            ("bad chunks", request_bytes(PATH, noise, crowd.key, **CHUNKED), {0, 400}),
        ]
    )
    response = await crowd.ask(sent)
    crowd.check(f"garbage, {name}", response.status in statuses, response)


@kind(share=2)
async def huge_body(crowd: Crowd, source: random.Random) -> None:
    """Send a body over the limit, with its length or in chunks, before reading the rejection."""
    data = b"[" + b" " * HUGE_BYTES
    if source.random() < 0.5:
        request = request_bytes(PATH, data, crowd.key)
    else:
        pieces = [data[start : start + 65536] for start in range(0, len(data), 65536)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        request = request_bytes(PATH, chunks, crowd.key, **CHUNKED)
    reader, writer = await crowd.connect()
    writer.write(request)
    await writer.drain()
    response = parsed(await reader.read(-1))
    crowd.check("huge body", response.status == 413, response)
    await close(writer)


@kind(share=2)
async def huge_headers(crowd: Crowd, source: random.Random) -> None:
    line = source.choice([b"x: %b\r\n" % (b"a" * 1000), b"x:\r\n"])
    reader, writer = await crowd.connect()
    writer.write(b"GET /v1/models HTTP/1.1\r\n" + line * (200_000 // len(line)))
    response = parsed(await reader.read(-1))
    crowd.check("huge headers", response.status == 431, response)
    await close(writer)


@kind(share=3)
async def slow_headers(crowd: Crowd, source: random.Random) -> None:
    """Send a byte every 0.1 to 0.3 seconds, until the server closes the connection."""
    _, data = pick(crowd, source)
    reader, writer = await crowd.connect()
    with contextlib.suppress(ConnectionError):
        for byte in data:
            if reader.at_eof():
                break
            writer.write(bytes([byte]))
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1 + source.random() * 0.2):
                    response = parsed(await reader.read(-1))
                    crowd.check("slow headers", response.status in (0, 408), response)
    await close(writer)


@kind(share=2)
async def slow_body(crowd: Crowd, source: random.Random) -> None:
    """Send the end of a body slowly, and leave before it is complete."""
    _, data = pick(crowd, source)
    _, writer = await crowd.connect()
    writer.write(data[:-20])
    for byte in data[-20:-15]:
        writer.write(bytes([byte]))
        await asyncio.sleep(source.random() * 0.3)
    await close(writer)


@kind(share=2)
async def half_closed(crowd: Crowd, source: random.Random) -> None:
    """Close the sending side at once; the server may take the client for gone."""
    _, data = pick(crowd, source)
    reader, writer = await crowd.connect()
    writer.write(data if source.random() < 0.7 else data[: source.randrange(len(data))])
    with contextlib.suppress(ConnectionError):
        writer.write_eof()
        await reader.read(-1)
    await close(writer)


@kind(share=2)
async def silent(crowd: Crowd, source: random.Random) -> None:
    _, writer = await crowd.connect()
    await asyncio.sleep(source.random())
    await close(writer)


@kind(share=2)
async def wrong_key(crowd: Crowd, source: random.Random) -> None:
    body = question_body(source.choice(QUESTIONS))
    key = source.choice(["", "wrong-wrong-wrong", crowd.key + "x", crowd.key[:-1]])
    response = await crowd.ask(request_bytes(PATH, body, key))
    crowd.check("wrong key", response.status == 401, response)


@kind(share=2)
async def many_choices_dropped(crowd: Crowd, source: random.Random) -> None:
    """Request much work, and leave without reading any of its output."""
    body = orjson.loads(question_body(source.choice(QUESTIONS)))
    data = orjson.dumps({**body, "n": 4, "max_tokens": 200})
    _, writer = await crowd.connect()
    writer.write(request_bytes(PATH, data, crowd.key))
    await asyncio.sleep(source.random())
    writer.transport.abort()
