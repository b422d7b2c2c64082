"""Clients of the text routes: patient clients, slow clients, and clients that leave."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import orjson

from support.soak.crowd import Crowd, kind
from support.soak.messages import close, events, parsed, request_bytes

CHAT_MODEL, EMBEDDING_MODEL = "smollm2-135m", "all-minilm-l6-v2"
PROMPTS = [
    "The choir sang", "Once upon a time", "def fibonacci(n):", "The capital of France is", "1, 2, 3, 4,",
    "Water boils at", "In the year 1969", "My favourite instrument is the", "Dear Sir or Madam,", "To be or not to be",
    "The cat sat on", "Ladies and gentlemen,",
]  # fmt: skip
Question = tuple[str, int]
QUESTIONS: list[Question] = [(prompt, 6 + 3 * number) for number, prompt in enumerate(PROMPTS)]


def question_body(question: Question, salt: str = "", **more: Any) -> bytes:
    prompt, max_tokens = question
    fields = {"temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    body = {"model": CHAT_MODEL, "prompt": prompt, "max_tokens": max_tokens, **fields, **more}
    return orjson.dumps(body | ({"cache_salt": salt} if salt else {}))


def pick(crowd: Crowd, source: random.Random) -> tuple[Question, bytes]:
    """Return a random question and its request, often with a new cache salt, so that the prompt is not in the cache."""
    question = source.choice(QUESTIONS)
    salt = str(source.random()) if source.random() < 0.7 else ""
    return question, request_bytes("/v1/completions", question_body(question, salt), crowd.key)


def check_stream(crowd: Crowd, question: Question, data: bytes) -> None:
    """Check that a stream is complete and has the text that the question gets alone."""
    response = parsed(data)
    assert response.status == 200, response
    *chunks, end = events(response.body)
    assert end is None, "there is no end marker"
    assert not any("error" in chunk for chunk in chunks), chunks[-1]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[-1]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] == question[1]
    crowd.same_as_alone(question, "".join(choice["text"] for choice in choices))


@kind(share=26)
async def patient(crowd: Crowd, source: random.Random) -> None:
    question, data = pick(crowd, source)
    reader, writer = await crowd.connect()
    writer.write(data)
    check_stream(crowd, question, await reader.read(-1))
    await close(writer)


@kind(share=8)
async def slow_reader(crowd: Crowd, source: random.Random) -> None:
    """Read small amounts with pauses, through a small receive buffer."""
    question, data = pick(crowd, source)
    reader, writer = await crowd.connect(receive_bytes=2048)
    writer.write(data)
    parts = []
    while part := await reader.read(source.randint(1, 700)):
        parts.append(part)
        await asyncio.sleep(source.random() * 0.05)
    check_stream(crowd, question, b"".join(parts))
    await close(writer)


@kind(share=20)
async def cancelling(crowd: Crowd, source: random.Random) -> None:
    """Leave during the answer, with or without an orderly close."""
    _, data = pick(crowd, source)
    reader, writer = await crowd.connect()
    writer.write(data)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(source.random() * 2):
            for _ in range(source.randint(0, 12)):
                await reader.read(400)
    if source.random() < 0.5:
        writer.transport.abort()
    await close(writer)


@kind(share=6)
async def dropping(crowd: Crowd, source: random.Random) -> None:
    """Leave before the answer, perhaps before the request is complete."""
    _, data = pick(crowd, source)
    _, writer = await crowd.connect()
    writer.write(data if source.random() < 0.5 else data[: source.randrange(len(data))])
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    await asyncio.sleep(source.random() * 0.05)
    writer.transport.abort()
    await close(writer)


@kind(share=6)
async def whole_chat(crowd: Crowd, source: random.Random) -> None:
    prompt, max_tokens = question = source.choice(QUESTIONS)
    messages = [{"role": "user", "content": prompt}]
    body = {"model": CHAT_MODEL, "messages": messages, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
    response = await crowd.ask(request_bytes("/v1/chat/completions", orjson.dumps(body), crowd.key))
    assert response.status == 200, response
    answer = response.json()
    assert answer["usage"]["completion_tokens"] == max_tokens
    crowd.same_as_alone(("chat", question), answer["choices"][0]["message"]["content"])


@kind(share=3)
async def stored_response(crowd: Crowd, source: random.Random) -> None:
    prompt, _ = source.choice(QUESTIONS)
    body = {"model": CHAT_MODEL, "input": prompt, "max_output_tokens": 12, "temperature": 0}
    response = await crowd.ask(request_bytes("/v1/responses", orjson.dumps(body), crowd.key))
    assert response.status == 200, response
    crowd.same_as_alone(("response", prompt), response.json()["output"][0]["content"][0]["text"])


@kind(share=6)
async def embedding(crowd: Crowd, source: random.Random) -> None:
    prompts = source.sample(PROMPTS, 3)
    body = {"model": EMBEDDING_MODEL, "input": prompts, "encoding_format": "base64"}
    response = await crowd.ask(request_bytes("/v1/embeddings", orjson.dumps(body), crowd.key))
    assert response.status == 200, response
    for prompt, item in zip(prompts, response.json()["data"], strict=True):
        crowd.same_as_alone(("embedding", prompt), item["embedding"])
