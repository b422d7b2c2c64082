"""64 clients of every sort for minutes: every answer is right, and everything that was lent comes back."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from antiphon.bench.process import ServerProcess, antiphon_server, num_open_files, resident_bytes
from support.soak_clients import SHARES, Question, Soak, question_body, read_answer, request_bytes

pytestmark = [pytest.mark.slow, pytest.mark.weights]

MODEL = "smollm2-135m"
NUM_CLIENTS = 64
#: Small, so that it is soon full and requests displace each other; resident memory then no longer grows with it.
KV_MEGABYTES = 64
MEMORY_TOLERANCE = 0.05
WARM_UP_ROUNDS = 6
PROMPTS = [
    "The choir sang", "Once upon a time", "def fibonacci(n):", "The capital of France is", "1, 2, 3, 4,",
    "Water boils at", "In the year 1969", "My favourite instrument is the", "Dear Sir or Madam,", "To be or not to be",
    "The cat sat on", "Ladies and gentlemen,",
]  # fmt: skip


@dataclass(frozen=True)
class Holdings:
    """What the server's two processes hold."""

    files: tuple[int, int]
    resident: tuple[int, int]


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[ServerProcess]:
    model_path(MODEL)  # it is here from now on
    options = ["--batch-invariant", "--kv-memory", str(KV_MEGABYTES), "--offline"]
    with antiphon_server(MODEL, *options) as running:
        yield running


def metric(text: str, name: str) -> float:
    """The sum over all labels; not a number if the engine was too busy to tell."""
    values = re.findall(rf"^antiphon:{name} (\S+)$", text, re.MULTILINE)
    return sum(map(float, values)) if values else math.nan


def wait_until_idle(server: ServerProcess, seconds: float = 30.0) -> None:
    """Until nothing runs, nothing waits, and no block is anybody's."""
    deadline = time.monotonic() + seconds
    while True:
        text = httpx.get(f"{server.url}/metrics", timeout=30).text
        names = (r"num_requests_running{.*}", r"num_requests_waiting{.*}", r'kv_cache_blocks{.*state="owned"}')
        left = [metric(text, name) for name in names]
        if left == [0, 0, 0]:
            return
        assert time.monotonic() < deadline, f"running, waiting, blocks: {left}"
        time.sleep(0.1)


def holdings(server: ServerProcess) -> Holdings:
    pids = server.pid, server.engine_pid()
    return Holdings(
        (num_open_files(pids[0]), num_open_files(pids[1])), (resident_bytes(pids[0]), resident_bytes(pids[1]))
    )


async def alone(soak: Soak, question: Question) -> str:
    reader, writer = await soak.connect()
    writer.write(request_bytes(question_body(soak.model, question)))
    answer = read_answer(await reader.read(-1))
    writer.close()
    assert answer.completion_tokens == question.max_tokens
    return answer.text


def warm_up(server: ServerProcess, crowd: Soak) -> None:
    """Until all memory of the cache has been used once."""
    for number in range(WARM_UP_ROUNDS):
        asyncio.run(crowd.run(NUM_CLIENTS, 8.0, seed=100 + number))
        wait_until_idle(server)
        if metric(httpx.get(f"{server.url}/metrics", timeout=30).text, "kv_cache_lent_ratio") > 0.95:
            return


def test_every_sort_of_client_at_once(server: ServerProcess, soak: bool) -> None:
    seconds = 180.0 if soak else 20.0
    address = urlsplit(server.url)
    crowd = Soak(str(address.hostname), int(address.port or 0), MODEL, {})

    async def ask_alone() -> None:
        for number, prompt in enumerate(PROMPTS):
            question = Question(prompt, 6 + 3 * number)
            crowd.expected[question] = await alone(crowd, question)

    asyncio.run(ask_alone())
    engine = server.engine_pid()
    warm_up(server, crowd)
    before = holdings(server)
    asyncio.run(crowd.run(NUM_CLIENTS, seconds, seed=2))
    wait_until_idle(server)

    assert crowd.wrong == []
    assert all(crowd.counts[kind] for kind in SHARES), crowd.counts
    assert server.engine_pid() == engine, "the engine process was started again"
    assert httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200
    deadline = time.monotonic() + 10
    while (after := holdings(server)).files != before.files and time.monotonic() < deadline:
        time.sleep(0.2)
    assert after.files == before.files
    for name, old, new in zip(("server", "engine"), before.resident, after.resident, strict=True):
        assert abs(new - old) <= MEMORY_TOLERANCE * old, f"{name}: {old / 1e6:.1f} MB, then {new / 1e6:.1f} MB"
    print(f"{sum(crowd.counts.values())} requests: {dict(crowd.counts)}; before {before}, after {after}")
    asyncio.run(ask_again(crowd))


async def ask_again(crowd: Soak) -> None:
    """After all that, a question gets the answer it got at first."""
    for question, text in list(crowd.expected.items())[:3]:
        assert await alone(crowd, question) == text
