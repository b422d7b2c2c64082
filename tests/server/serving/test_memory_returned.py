"""Real weights: two chat models and an encoder under mixed load; one is unloaded, and its memory is really back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

LARGE, SMALL, ENCODER = "qwen2.5-coder-0.5b", "smollm2-135m", "all-minilm-l6-v2"
ADMIN = "an-admins-own-key"
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in (LARGE, SMALL, ENCODER):
        model_path(name)  # it is here from now on
    specs = tuple(ModelSpec.of(name) for name in (LARGE, ENCODER))  # the small one comes when it is asked for
    config = ServerConfig(models=specs, admin_keys=KeyRing([ADMIN]), memory_bytes=4 << 30)
    with running_server(config, {"kv_bytes": 512 << 20}) as running:
        yield running


def admin(server: RunningServer, method: str, path: str, **body: Any) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {ADMIN}"}
    answer = httpx.request(method, f"{server.url}/admin{path}", headers=headers, json=body or None, timeout=60)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def mixed_load(server: RunningServer) -> list[str]:
    """Chats with both models and embeddings, all at once; returns the answers."""
    long = "The quick brown fox jumps over the lazy dog. " * 3

    def chat(model: str, text: str) -> str:
        messages = QUESTION if not text else [{"role": "user", "content": text}]
        body = {"model": model, "messages": messages, "max_tokens": 6, "temperature": 0}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120).json()
        return str(answer["choices"][0]["message"]["content"])

    def embed(number: int) -> str:
        body = {"model": ENCODER, "input": [f"text {number} {index}" for index in range(16)]}
        return str(len(httpx.post(f"{server.url}/v1/embeddings", json=body, timeout=120).json()["data"]))

    with ThreadPoolExecutor(8) as pool:
        chats = [pool.submit(chat, model, text) for model in (LARGE, SMALL) for text in ("", long)]
        vectors = [pool.submit(embed, number) for number in range(4)]
        return [future.result() for future in [*chats, *vectors]]


def resident(server: RunningServer) -> int:
    """As the engine tells it, if it is not too busy to tell it in time."""
    figure = lambda: admin(server, "GET", "/models")["memory"]["engine_resident_bytes"]  # noqa: E731
    return int(wait_until(figure, "the engine's own figures"))


@pytest.mark.weights
@pytest.mark.slow
def test_unloading_gives_at_least_the_weights_back(server: RunningServer) -> None:
    first = mixed_load(server)
    assert "Paris" in first[0] and first[4:] == ["16"] * 4
    cards = {card["name"]: card for card in admin(server, "GET", "/models")["models"]}
    assert [cards[name]["state"] for name in (LARGE, SMALL, ENCODER)] == ["ready"] * 3
    assert [cards[name]["is_configured"] for name in (LARGE, SMALL, ENCODER)] == [True, False, True]
    lent = admin(server, "GET", "/models")["memory"]["kv_lent_bytes"]
    before = resident(server)
    card = admin(server, "POST", "/models/unload", model=LARGE)
    assert card["state"] == "unloaded"
    after = resident(server)
    weights = cards[LARGE]["weight_bytes"]
    assert before - after >= weights, f"{before - after:,} bytes came back of {weights:,}"
    told = admin(server, "GET", "/models")["memory"]
    assert told["kv_lent_bytes"] < lent
    assert told["weight_bytes"] == cards[SMALL]["weight_bytes"] + cards[ENCODER]["weight_bytes"]

    # It comes back on its next use, answers again, and its memory is what it was.
    again = mixed_load(server)
    assert "Paris" in again[0] and again[4:] == first[4:]
    wait_until(
        lambda: abs(resident(server) - before) <= 0.1 * before,
        f"about {before:,} resident bytes",
        seen=lambda: resident(server),
    )
