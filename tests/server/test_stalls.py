"""Large requests of every kind, sent to a server process while `/livez` is polled: none stalls the others."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from antiphon.errors import AntiphonError
from antiphon.weights.catalog.resolve import resolve
from support.server.serve_command import ServeCommand

pytestmark = [pytest.mark.weights, pytest.mark.alone]

CHAT, EMBEDDING = "smollm2-135m", "all-minilm-l6-v2"
#: A stall took 10 to 39 s. A server that does not stall answers in milliseconds, on a busy machine in some hundred.
LONGEST_SECONDS, MEDIAN_SECONDS = 1.5, 0.25
MEMORY_BYTES = 700 << 20
SIZE = 7_900_000
WORDS = "the quick brown fox jumps over the lazy dog, and then it runs away. "


class Poller(threading.Thread):
    """Asks `/livez` every few milliseconds and keeps how long each answer took."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._ending = threading.Event()
        self.seconds: list[float] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=120) as client:
            while not self._ending.wait(0.01):
                started = time.perf_counter()
                assert client.get("/livez").status_code == 200
                self.seconds.append(time.perf_counter() - started)

    def end(self) -> None:
        self._ending.set()
        self.join(120)


@pytest.fixture(scope="module")
def server() -> Iterator[ServeCommand]:
    try:
        for name in (CHAT, EMBEDDING):
            resolve(name, offline=True)
    except AntiphonError as error:
        pytest.skip(str(error))
    command = ServeCommand(CHAT, EMBEDDING, "--port", "0", "--offline", "--kv-memory", "64", "--memory", "1024")
    try:
        command.wait_until_ready()
        yield command
    finally:
        command.process.terminate()
        command.wait_for_end()


def chat(**more: Any) -> dict[str, Any]:
    return {"model": CHAT, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **more}


def completion(prompt: Any, **more: Any) -> dict[str, Any]:
    return {"model": CHAT, "prompt": prompt, "max_tokens": 1, **more}


def message(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def nested(depth: int) -> bytes:
    return b'{"model":"m","messages":' + b"[" * depth + b"]" * depth + b"}"


#: By name: the route, the body, and the status.
CASES: dict[str, tuple[str, Callable[[], Any], int]] = {
    "prompt of words": ("/v1/completions", lambda: completion(WORDS * (SIZE // len(WORDS))), 400),
    "prompt of one word": ("/v1/completions", lambda: completion("a" * SIZE), 400),
    "prompt of digits": ("/v1/completions", lambda: completion("1" * SIZE), 400),
    "prompt of emoji": ("/v1/completions", lambda: completion("🙂" * (SIZE // 4)), 400),
    "prompt of control tokens": ("/v1/completions", lambda: completion("<|im_end|>" * (SIZE // 10)), 400),
    "many prompts": ("/v1/completions", lambda: completion(["a"] * 250_000), 400),
    "many token ids": ("/v1/completions", lambda: completion([5] * 250_000), 400),
    "too many token ids": ("/v1/completions", lambda: completion([5] * 3_000_000), 400),
    "many lists": ("/v1/completions", lambda: completion([[]] * 2_500_000), 400),
    "many wrong prompts": ("/v1/completions", lambda: completion([1.5] * 250_000), 400),
    "long message": ("/v1/chat/completions", lambda: chat(messages=[message(WORDS * (SIZE // len(WORDS)))]), 400),
    "message of control tokens": (
        "/v1/chat/completions",
        lambda: chat(messages=[message("<|im_end|>" * 200_000)]),
        400,
    ),
    "many messages": ("/v1/chat/completions", lambda: chat(messages=[message("a")] * 180_000), 400),
    "allowed number of messages": ("/v1/chat/completions", lambda: chat(messages=[message("a")] * 9_000), 400),
    "many parts": (
        "/v1/chat/completions",
        lambda: chat(messages=[message([{"type": "text", "text": "a"}] * 30_000)]),
        400,
    ),
    "private characters": (
        "/v1/chat/completions",
        lambda: chat(messages=[message("".join(map(chr, range(0x100000, 0x10FFFE))))]),
        400,
    ),
    "many tools": (
        "/v1/chat/completions",
        lambda: chat(tools=[{"type": "function", "function": {"name": f"f{n}"}} for n in range(15_000)]),
        400,
    ),
    "huge schema": (
        "/v1/chat/completions",
        lambda: chat(
            guided_json={"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}
        ),
        400,
    ),
    "template options": ("/v1/chat/completions", lambda: chat(chat_template_kwargs={"x": "x" * SIZE}), 200),
    "biases": ("/v1/chat/completions", lambda: chat(logit_bias={str(n): 1.0 for n in range(100_000)}), 400),
    "allowed tokens": ("/v1/chat/completions", lambda: chat(allowed_token_ids=[7] * 250_000), 200),
    "long stop": ("/v1/chat/completions", lambda: chat(stop="x" * SIZE), 400),
    "many stops": ("/v1/chat/completions", lambda: chat(stop=["x"] * 250_000), 400),
    "unknown fields": ("/v1/chat/completions", lambda: chat(**{f"f{n}": 1 for n in range(60_000)}), 400),
    "nesting": ("/v1/chat/completions", lambda: nested(900), 400),
    "deep nesting": ("/v1/chat/completions", lambda: nested(3_000_000), 400),
    "grammar bomb": ("/v1/chat/completions", lambda: chat(guided_regex="((a{1000}){1000}){1000}"), 400),
    "tokenize": ("/tokenize", lambda: {"model": CHAT, "prompt": WORDS * (SIZE // len(WORDS))}, 400),
    "tokenize as much as allowed": ("/tokenize", lambda: {"model": CHAT, "prompt": "a b " * 20_000}, 200),
    "detokenize": ("/detokenize", lambda: {"model": CHAT, "tokens": [5] * 250_000}, 200),
    "long input": ("/v1/embeddings", lambda: {"model": EMBEDDING, "input": WORDS * (SIZE // len(WORDS))}, 400),
    "input of one word": ("/v1/embeddings", lambda: {"model": EMBEDDING, "input": "a" * 300_000}, 200),
    "many inputs": ("/v1/embeddings", lambda: {"model": EMBEDDING, "input": ["a"] * 250_000}, 400),
    "responses": ("/v1/responses", lambda: {"model": CHAT, "input": WORDS * (SIZE // len(WORDS))}, 400),
    "many items": ("/v1/responses", lambda: {"model": CHAT, "input": [message("a")] * 9_000}, 400),
    "items of calls": (
        "/v1/responses",
        lambda: {
            "model": CHAT,
            "input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}] * 20_000,
        },
        400,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_server_answers_others_meanwhile(server: ServeCommand, name: str) -> None:
    route, make, status = CASES[name]
    body = make()
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    poller = Poller(server.url())
    poller.start()
    try:
        with httpx.Client(base_url=server.url(), timeout=120) as client:
            answer = client.post(route, content=data, headers={"content-type": "application/json"})
    finally:
        poller.end()
    assert answer.status_code == status, answer.text[:500]
    assert len(answer.text) < 2000 or status == 200
    if poller.seconds:
        print(f"{name}: {max(poller.seconds):.3f} s at most, {len(poller.seconds)} polls")
        assert max(poller.seconds) < LONGEST_SECONDS
        assert len(poller.seconds) < 10 or statistics.median(poller.seconds) < MEDIAN_SECONDS


def test_the_server_has_kept_little_memory(server: ServeCommand) -> None:
    """After all of it: the highest that its process, without the engine's, ever held."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    [peak] = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    print(f"{peak >> 20} MiB at most")
    assert peak < MEMORY_BYTES
